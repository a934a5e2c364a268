import { afterAll, beforeAll, beforeEach } from "vitest";
import { z } from "zod";
import { type Route, route } from "../../../src/route.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import type { HttpClient } from "../../support/http.ts";

/** The path of an operation that creates something and accepts an idempotency key. */
export const PATH = "/v1/service/things";
export const conflict = { status: 409, body: { error: { code: "idempotency_conflict", status: 409 } } };
const caller = {
  accountId: "019a0000-0000-7000-8000-00000000000a",
  principalAccountId: "019a0000-0000-7000-8000-00000000000a",
  isCustomer: false,
  connectionId: "c",
  keyPrefix: "k",
  verifierId: "v",
  registryAnswers: false,
  role: "full" as const,
  agentId: null,
  explanationValues: "full" as const,
};

/** Two replicas with operations that accept an idempotency key, and a signed-in person. */
export class KeyedCalls {
  api!: TestApi;
  other!: TestApi;
  ada!: HttpClient;
  adaId = "";
  made = 0;
  before: () => Promise<unknown> = async () => {};

  creation(overrides: Partial<Route> = {}): Route {
    return route({
      id: "create_thing",
      method: "POST",
      path: PATH,
      summary: "Create",
      access: "session",
      onboarding: "any",
      idempotent: true,
      body: z.object({ name: z.string() }),
      answer: {
        status: 201,
        schema: z.object({ id: z.int(), name: z.string(), secret: z.string() }),
        description: "created",
      },
      errors: ["platform_limit"],
      handle: async ({ body }) => {
        await this.before();
        this.made += 1;
        return {
          body: { id: this.made, name: body.name, secret: "show-once" },
          headers: { location: `/things/${this.made}` },
        };
      },
      ...overrides,
    } as Route<"session", unknown, unknown, { name: string }, { id: number; name: string; secret: string }>);
  }

  create(key: string | undefined, body: unknown = { name: "n" }, client = this.ada, path = PATH) {
    return client.post(path, body, { headers: key === undefined ? {} : { "idempotency-key": key } });
  }

  /** Returns a client of the same person at the second replica. */
  adaThere(): HttpClient {
    const client = this.other.client();
    for (const name of ["service_session", "service_csrf"]) {
      client.setCookie(name, this.ada.cookie(name) ?? "");
    }
    return client;
  }
}

/** Creates a `KeyedCalls` for a test file. `more` adds routes to {@link PATH}. */
export function keyedCalls(more: (calls: KeyedCalls) => Route[] = () => []): KeyedCalls {
  const calls = new KeyedCalls();
  beforeAll(async () => {
    const routes = [calls.creation(), ...more(calls)];
    const findApiKey = async (presented: string) => ({
      ...caller,
      accountId: presented.startsWith("ada") ? calls.adaId : caller.accountId,
      connectionId: presented || "c",
    });
    calls.api = await startApi({ routes, authenticators: { findApiKey } });
    calls.other = await startApi({ routes, authenticators: { findApiKey }, shares: calls.api });
    calls.ada = calls.api.client();
    const { account_id } = await calls.ada.onboard("ada@example.com");
    calls.adaId = account_id;
  });
  afterAll(async () => {
    await calls.other.stop();
    await calls.api.stop();
  });
  beforeEach(async () => {
    calls.made = 0;
    calls.before = async () => {};
    await calls.api.db("idempotency_keys").delete();
  });
  return calls;
}
