import { randomUUID } from "node:crypto";
import { addSeconds } from "../../src/clock.ts";
import type { WebhookDeliveryRow } from "../../src/db/tables.ts";
import type { Person, TestApi } from "../support/api.ts";
import { insertDelivery } from "../support/deliveries.ts";
import type { HttpAnswer } from "../support/http.ts";
import { registerPlatform } from "../support/platform_world.ts";

/** A person's connection with a callback URL, and calls of the API about its deliveries. */
export type Sending = {
  person: Person;
  connectionId: string;
  platformId: string;
  get(path: string, by?: Person): Promise<HttpAnswer>;
  post(path: string, body?: unknown, by?: Person): Promise<HttpAnswer>;
  setUrl(callbackUrl: string | null): Promise<HttpAnswer>;
  /** Inserts a delivery that was created this many seconds ago. Returns its id. */
  delivery(change?: Partial<WebhookDeliveryRow>, secondsAgo?: number): Promise<string>;
};

/** Registers a platform and returns its connection. The default callback URL is on `shop.example.com`. */
export async function sending(api: TestApi, fields: object = {}): Promise<Sending> {
  const person = await api.person();
  const registration = { callback_url: "https://shop.example.com/hook", ...fields };
  const { connectionId, platformId } = await registerPlatform(person, registration);
  const pathOf = (path: string) => `/v1/service/connections/${connectionId}/${path}`;
  return {
    ...{ person, connectionId, platformId },
    get: (path, by = person) => by.client.get(pathOf(path)),
    post: (path, body, by = person) => by.client.post(pathOf(path), body),
    setUrl: (callback_url) => person.client.call("PUT", pathOf("callback"), { body: { callback_url } }),
    delivery: (change = {}, secondsAgo = 60) =>
      insertDelivery(api.db, connectionId, { ...change, at: addSeconds(api.clock.now(), -secondsAgo) }),
  };
}

/** Inserts attempts of a delivery with these outcomes. */
export async function noteAttempts(
  api: TestApi,
  deliveryId: string,
  ...attempts: { outcome: string; status?: number; detail?: string; response_excerpt?: Buffer }[]
): Promise<void> {
  const now = api.clock.now();
  await api.db("webhook_attempts").insert(
    attempts.map((attempt, place) => ({
      delivery_id: deliveryId,
      attempt: place + 1,
      started_at: addSeconds(now, place),
      ended_at: addSeconds(now, place + 1),
      status: null,
      detail: null,
      response_excerpt: null,
      ...attempt,
    })),
  );
}

/** Ids that belong to no delivery and no recovery. */
export const NOBODYS = [randomUUID(), "nonsense", "%00"];
