import { afterAll, beforeAll, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { endpointIdOf, ensureEndpoints } from "../../src/webhooks/endpoint.ts";
import { makeConnection, type TestConnection } from "../events/support/connection.ts";
import type { Person } from "../support/api.ts";
import { insertDelivery } from "../support/deliveries.ts";
import { type ServiceApi, startServiceApi } from "../support/service_world.ts";

const PATH = "/v1/service/installation/suspended-endpoints";

let api: ServiceApi;
let administrator: Person;

beforeAll(async () => {
  api = await startServiceApi();
  administrator = await api.administrator();
});
afterAll(() => api.stop());

async function endpoint(seconds: number, state: "suspended" | "paused" | "active"): Promise<TestConnection> {
  const url = "https://somebody:password@hooks.example.test:8443/T0/secret-path?token=hidden#part";
  const connection = await makeConnection(api.db, url);
  await ensureEndpoints(api.db, [connection.connectionId], api.clock.now());
  await api
    .db("webhook_endpoints")
    .where({ connection_id: connection.connectionId })
    .update({
      state,
      suspended_at: state === "suspended" ? addSeconds(api.clock.now(), -seconds) : null,
      suspend_reason: state === "suspended" ? "failing" : null,
    });
  return connection;
}

async function listed(query: string) {
  const { body, text } = await administrator.client.get(`${PATH}?${query}`);
  return { items: body.items as Record<string, unknown>[], next: body.next_cursor as string | null, text };
}

test("suspended callbacks are listed newest first, in pages, with the ids of their owner", async () => {
  const [old, young] = [await endpoint(50, "suspended"), await endpoint(5, "suspended")];
  await endpoint(1, "paused");
  await endpoint(1, "active");
  for (const state of ["held", "held", "failed"] as const) {
    await insertDelivery(api.db, old.connectionId, { at: api.clock.now(), state });
  }
  const first = await listed("limit=1");
  expect(first.items.map((item) => item.connection_id)).toEqual([young.connectionId]);
  const second = await listed(`limit=1&cursor=${first.next}`);
  expect(second.items).toEqual([
    {
      account_id: old.accountId,
      connection_id: old.connectionId,
      host: "hooks.example.test:8443",
      suspended_at: addSeconds(api.clock.now(), -50).toISOString(),
      reason: "failing",
      held: 2,
    },
  ]);
  expect(second.next).toBeNull();
});

test("a suspended callback shows only the host of its URL", async () => {
  const { text } = await listed("limit=100");
  expect(text).not.toMatch(/secret-path|hidden|somebody|password|#part/);
});

test("a suspended callback is listed even if its URL was removed", async () => {
  const { connectionId } = await endpoint(9, "suspended");
  await api.db("connections").where({ connection_id: connectionId }).update({ callback_url: null });
  const { items } = await listed("limit=100");
  expect(items.find((item) => item.connection_id === connectionId)?.host).toBeNull();
});

test("waiting deliveries are counted up to 1,000", async () => {
  const { connectionId } = await endpoint(1, "suspended");
  await insertDelivery(api.db, connectionId, { at: api.clock.now(), state: "held" });
  await api.db.raw(
    `insert into webhook_deliveries
     select (jsonb_populate_record(d, jsonb_build_object('delivery_id', gen_random_uuid(), 'event_id', gen_random_uuid()))).*
     from webhook_deliveries d, generate_series(1, 1000) where d.endpoint_id = ?`,
    [endpointIdOf(connectionId)],
  );
  const { items } = await listed("limit=1");
  expect(items).toMatchObject([{ connection_id: connectionId, held: 1000 }]);
});
