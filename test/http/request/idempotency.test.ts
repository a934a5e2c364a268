import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { ApiError } from "../../../src/errors.ts";
import { createIdempotency } from "../../../src/http/request/idempotency.ts";
import { type Route, route } from "../../../src/route.ts";
import { VaultRefused, VaultUnavailable } from "../../../src/vault/errors.ts";
import { OPERATOR_TOKEN, startApi, type TestApi } from "../../support/api.ts";
import type { HttpClient } from "../../support/http.ts";
import { leaderOf } from "../../support/platform_world.ts";
import { until } from "../../support/process.ts";
import { refusal } from "../support/sample_routes.ts";

const PATH = "/v1/service/things";
const EITHER = "/v1/service/either";
const ASKED = "/v1/service/asked";
const conflict = { status: 409, body: { error: { code: "idempotency_conflict", status: 409 } } };
const caller = {
  accountId: "019a0000-0000-7000-8000-00000000000a",
  connectionId: "c",
  keyPrefix: "k",
  verifierId: "v",
  registryAnswers: false,
};

let api: TestApi;
let other: TestApi;
let ada: HttpClient;
let adaId: string;
let made: number;
let before: () => Promise<unknown>;

function creation(overrides: Partial<Route> = {}): Route {
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
    async handle({ body }) {
      await before();
      made += 1;
      return {
        body: { id: made, name: body.name, secret: "show-once" },
        headers: { location: `/things/${made}` },
      };
    },
    ...overrides,
  } as Route<"session", unknown, unknown, { name: string }, { id: number; name: string; secret: string }>);
}

/** A call that takes no key. */
function unkeyed(access: Route["access"], method: "GET" | "POST"): Route {
  const { idempotent, ...rest } = creation({
    id: `unkeyed_${access}_${method}`,
    path: `/v1/service/unkeyed/${access}`,
    access,
    method,
  });
  return rest;
}

beforeAll(async () => {
  const routes = () => [
    creation(),
    creation({ id: "create_part", path: "/v1/service/things/{id}/parts" }),
    creation({ id: "create_by_key", path: "/v1/service/keyed", access: "api_key" }),
    creation({ id: "create_by_either", path: EITHER, access: "account" }),
    creation({ id: "create_asked", path: ASKED, query: z.object({ of: z.string() }) }),
    creation({ id: "change_thing", path: `${PATH}/{id}`, method: "DELETE" }),
    creation({ id: "gateway", path: "/v1/service/gateway", access: "public", idempotent: "foreign" }),
    ...(["public", "session", "api_key", "account", "operator"] as const).flatMap((access) =>
      (["GET", "POST"] as const).map((method) => unkeyed(access, method)),
    ),
    creation({
      id: "with_cookies",
      path: "/v1/service/cookies",
      handle: async () => ({
        body: { id: 1, name: "n", secret: "s" },
        cookies: [{ name: "session", value: "", maxAgeSeconds: 0 }],
      }),
    }),
  ];
  const findApiKey = () => async (presented: string) => ({
    ...caller,
    accountId: presented.startsWith("ada") ? adaId : caller.accountId,
    connectionId: presented || "c",
  });
  api = await startApi({ routes, findApiKey });
  other = await startApi({ routes, findApiKey, shares: api });
  ada = api.client();
  ({ account_id: adaId } = await ada.onboard("ada@example.com"));
});
afterAll(async () => {
  await other.stop();
  await api.stop();
});
beforeEach(async () => {
  made = 0;
  before = async () => {};
  await api.db("idempotency_keys").delete();
});

function create(key: string | undefined, body: unknown = { name: "n" }, client = ada, path = PATH) {
  return client.post(path, body, { headers: key === undefined ? {} : { "idempotency-key": key } });
}

/** The same person at the other replica. */
function adaThere(): HttpClient {
  const client = other.client();
  for (const name of ["service_session", "service_csrf"]) client.setCookie(name, ada.cookie(name) ?? "");
  return client;
}

describe("an idempotency key", () => {
  test("gives the first answer again, secrets and headers included, and says that it is a repetition", async () => {
    const first = await create("k-1");
    const again = await create("k-1");
    expect(first).toMatchObject({ status: 201, body: { id: 1, name: "n", secret: "show-once" } });
    expect(first.headers.get("idempotent-replayed")).toBeNull();
    expect(again.status).toBe(201);
    expect(again.text).toBe(first.text);
    expect(again.headers.get("location")).toBe("/things/1");
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(made).toBe(1);
  });

  test("is not needed: each call without one creates", async () => {
    await create(undefined);
    await create(undefined);
    expect(made).toBe(2);
  });

  test("with another body is a conflict, and creates nothing", async () => {
    await create("k-1");
    expect(await create("k-1", { name: "other" })).toMatchObject(conflict);
    expect(made).toBe(1);
  });

  test("is another one for another account, route or parameter", async () => {
    const eve = api.client();
    await eve.onboard(`eve${Date.now()}@example.com`);
    await create("k-1");
    expect((await create("k-1", undefined, eve)).body).toMatchObject({ id: 2 });
    expect((await create("k-1", undefined, ada, `${PATH}/1/parts`)).body).toMatchObject({ id: 3 });
    expect(await create("k-1", undefined, ada, `${PATH}/2/parts`)).toMatchObject(conflict);
  });

  test("is another call's with another query", async () => {
    expect((await create("k-1", undefined, ada, `${ASKED}?of=1`)).body).toMatchObject({ id: 1 });
    expect(await create("k-1", undefined, ada, `${ASKED}?of=2`)).toMatchObject(conflict);
    expect((await create("k-1", undefined, ada, `${ASKED}?of=1`)).body).toMatchObject({ id: 1 });
  });

  test("belongs to the account of an API key too", async () => {
    await create("k-1", undefined, api.client(), "/v1/service/keyed");
    const again = await create("k-1", undefined, other.client(), "/v1/service/keyed");
    expect(again).toMatchObject({ status: 201, body: { id: 1 } });
    expect(made).toBe(1);
  });

  test("gives an answer to nobody but who it was given to: the person, or one connection", async () => {
    const keyed = (apiKey: string | undefined, client = api.client()) =>
      client.post(
        EITHER,
        { name: "n" },
        {
          headers: {
            "idempotency-key": "k-1",
            ...(apiKey === undefined ? {} : { "x-service-api-key": apiKey }),
          },
        },
      );
    expect((await keyed(undefined, ada)).body).toMatchObject({ id: 1 });
    expect((await keyed("ada-shop")).body).toMatchObject({ id: 2 });
    expect((await keyed("ada-bank")).body).toMatchObject({ id: 3 });
    expect((await keyed("ada-shop", ada)).body).toMatchObject({ id: 2 });
    expect((await keyed("ada-bank")).body).toMatchObject({ id: 3 });
    expect((await keyed(undefined, adaThere())).body).toMatchObject({ id: 1 });
    const elsewhere = api.client();
    await elsewhere.signIn("ada@example.com");
    expect((await keyed(undefined, elsewhere)).body).toMatchObject({ id: 1 });
    expect(made).toBe(3);
  });

  test("works with every method that changes something", async () => {
    const remove = () =>
      ada.call("DELETE", `${PATH}/7`, { body: { name: "n" }, headers: { "idempotency-key": "k-1" } });
    expect((await remove()).headers.get("idempotent-replayed")).toBeNull();
    expect((await remove()).headers.get("idempotent-replayed")).toBe("true");
    expect(made).toBe(1);
  });

  test.each(["public", "session", "api_key", "account", "operator"])(
    "is refused, not ignored, by a call that takes none (%s)",
    async (access) => {
      const credentials = {
        authorization: `Bearer ${OPERATOR_TOKEN}`,
        "x-deputize-cluster": "c1",
        "x-deputize-epoch": String(await leaderOf(api, "c1")),
        ...(access === "api_key" ? { "x-service-api-key": "ada-shop" } : {}),
      };
      for (const [method, body] of [["GET"], ["POST", { name: "n" }]] as const) {
        const call = (headers: Record<string, string>) =>
          (access === "operator" ? api.operatorClient() : ada).call(method, `/v1/service/unkeyed/${access}`, {
            body,
            headers: { ...credentials, ...headers },
          });
        expect(await call({ "idempotency-key": "k-1" })).toMatchObject({
          status: 400,
          body: {
            error: {
              code: "invalid_request",
              message: "idempotency-key: this call does not take one; leave it out",
            },
          },
        });
        expect(made).toBe(0);
        if (method === "POST") expect((await call({})).status).toBe(201);
        made = 0;
      }
    },
  );

  test("is left alone by a call that passes on other people's headers", async () => {
    expect((await create("k-1", undefined, ada, "/v1/service/gateway")).body).toMatchObject({ id: 1 });
    expect((await create("two words", undefined, ada, "/v1/service/gateway")).body).toMatchObject({ id: 2 });
  });

  test("keeps no answer that sets cookies", async () => {
    expect((await create("k-1", undefined, ada, "/v1/service/cookies")).status).toBe(500);
    expect(api.lines.at(-1)).toContain("with_cookies: an answer with cookies cannot be kept");
  });

  test("is known to every replica", async () => {
    await create("k-1");
    expect((await create("k-1", undefined, adaThere())).body).toMatchObject({ id: 1 });
    expect(made).toBe(1);
  });

  test("still gives the first answer a millisecond before 24 hours are over, and creates anew after them", async () => {
    const start = api.clock.now();
    const age = async (milliseconds: number) =>
      api.db("idempotency_keys").update({ created_at: new Date(start.getTime() - milliseconds) });
    await create("k-1");
    await age(86_400_000 - 1);
    expect((await create("k-1")).body).toMatchObject({ id: 1 });
    await age(86_400_000);
    expect((await create("k-1", { name: "other" })).body).toMatchObject({ id: 2, name: "other" });
    expect((await create("k-1", { name: "other" })).body).toMatchObject({ id: 2 });
  });

  test("of a refused call may be used again, with another body too", async () => {
    before = refusal("platform_limit");
    expect(await create("k-1")).toMatchObject({ status: 409, body: { error: { code: "platform_limit" } } });
    before = async () => {};
    expect((await create("k-1", { name: "better" })).body).toMatchObject({ id: 1, name: "better" });
  });

  test.each([
    ["refusal", "is free", 0],
    ["answer", "has it", 1],
  ])("is settled before the call is answered: after a %s it %s", async (end, _, kept) => {
    const { promise: held, resolve: go } = Promise.withResolvers<void>();
    before = async () => {
      await held;
      if (end === "refusal") throw new ApiError("platform_limit");
    };
    const first = create("k-1");
    await expect.poll(async () => (await api.db("idempotency_keys")).length).toBe(1);
    const holder = await api.db.transaction();
    await holder("idempotency_keys").forUpdate().first();
    go();
    const waiting = { datname: api.db.raw("current_database()"), wait_event_type: "Lock" };
    await until(
      "the key's row is waited for",
      async () => (await api.db("pg_stat_activity").where(waiting)).length > 0,
    );
    const soon = new Promise((resolve) => setTimeout(resolve, 300, "not answered"));
    expect(await Promise.race([first, soon])).toBe("not answered");
    await holder.commit();
    expect((await first).status).toBe(end === "answer" ? 201 : 409);
    expect(await api.db("idempotency_keys").whereNotNull("answer_sealed")).toHaveLength(kept);
  });

  test("of a malformed call is not used up", async () => {
    expect((await create("k-1", { name: 7 })).status).toBe(400);
    expect((await create("k-1")).status).toBe(201);
  });

  test.each(["x", "~".repeat(255), "019a9a9a-0000-7000-8000-000000000000", "a/b?c=d"])(
    "may be %s",
    async (key) => {
      expect((await create(key)).status).toBe(201);
      expect((await create(key)).headers.get("idempotent-replayed")).toBe("true");
    },
  );

  test.each([
    ["256 characters", "x".repeat(256)],
    ["a space inside", "a b"],
    ["empty", ""],
    ["not ASCII", "\u00e9"],
  ])("is malformed with %s", async (_, key) => {
    expect(await create(key)).toMatchObject({ status: 400, body: { error: { code: "invalid_request" } } });
    expect(made).toBe(0);
  });

  test("creates once when it is sent many times concurrently to two replicas, and all get the one answer", async () => {
    for (let round = 0; round < 10; round += 1) {
      made = 0;
      before = () => new Promise((resolve) => setTimeout(resolve, 20));
      const answers = await Promise.all(
        [ada, adaThere(), ada, adaThere()].map((client) => create(`race-${round}`, undefined, client)),
      );
      expect(answers.map(({ status }) => status)).toEqual([201, 201, 201, 201]);
      expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
      expect(made).toBe(1);
    }
  });

  test("with another body is a conflict while the first call still runs", async () => {
    let release = (_: unknown): void => {};
    before = () => new Promise((resolve) => (release = resolve));
    const first = create("k-1");
    await expect.poll(async () => (await api.db("idempotency_keys")).length).toBe(1);
    expect(await create("k-1", { name: "other" })).toMatchObject(conflict);
    release(undefined);
    expect((await first).status).toBe(201);
  });

  test("waits for a first call that is refused in the end, and then runs itself", async () => {
    let refuse = (_: unknown): void => {};
    before = () => new Promise((_, reject) => (refuse = reject));
    const first = create("k-1");
    await expect.poll(async () => (await api.db("idempotency_keys")).length).toBe(1);
    const second = create("k-1");
    await new Promise((resolve) => setTimeout(resolve, 100));
    before = async () => {};
    refuse(new ApiError("platform_limit"));
    expect((await first).status).toBe(409);
    expect(await second).toMatchObject({ status: 201, body: { id: 1 } });
  });

  test("of a call that broke after it may have changed something stays locked for a minute", async () => {
    before = () => Promise.reject(new Error("broken"));
    const began = api.clock.now().getTime();
    expect((await create("k-1")).status).toBe(500);
    before = async () => {};
    const locked = await api.db("idempotency_keys").first("locked_until");
    expect(locked!.locked_until).toEqual(new Date(began + 60_000));
    const again = create("k-1");
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(made).toBe(0);
    await api.db("idempotency_keys").update({ locked_until: new Date(began) });
    expect(await again).toMatchObject({ status: 201, body: { id: 1 } });
  });

  test.each([
    ["is away", new VaultUnavailable("unreachable", "away")],
    ["refuses", new VaultRefused("rate_limited", "Too many calls", 429, 1)],
  ])("of a call for which the vault did not sign may be used again at once: it %s", async (_, error) => {
    before = () => Promise.reject(error);
    expect((await create("k-1")).status).toBe(503);
    before = async () => {};
    expect(await create("k-1")).toMatchObject({ status: 201, body: { id: 1 } });
  });

  test("left by a process that died is free again after a minute, for the same body only", async () => {
    const start = api.clock.now();
    await create("k-1");
    const died = async (milliseconds: number) =>
      api
        .db("idempotency_keys")
        .update({ answer_sealed: null, locked_until: new Date(start.getTime() + milliseconds) });
    await died(0);
    expect(await create("k-1", { name: "other" })).toMatchObject(conflict);
    expect((await create("k-1")).body).toMatchObject({ id: 2 });
    await died(1);
    const waiting = create("k-1");
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(made).toBe(2);
    await died(0);
    expect((await waiting).body).toMatchObject({ id: 3 });
  });

  test("taken over while its first run goes on belongs to the second: the first one's end changes nothing", async () => {
    for (const end of ["answer", "refusal"] as const) {
      const key = `k-${end}`;
      const { promise: held, resolve: release } = Promise.withResolvers<void>();
      before = async () => {
        before = async () => {};
        await held;
        if (end === "refusal") throw new ApiError("platform_limit");
      };
      const first = create(key);
      await expect.poll(async () => (await api.db("idempotency_keys").where({ key })).length).toBe(1);
      await api
        .db("idempotency_keys")
        .where({ key })
        .update({ locked_until: new Date(api.clock.now().getTime()) });
      const second = await create(key);
      release();
      expect((await first).status).toBe(end === "answer" ? 201 : 409);
      const again = await create(key);
      expect([again.headers.get("idempotent-replayed"), again.body]).toEqual(["true", second.body]);
    }
  });

  test("keeps its answer sealed: the database does not show it, and it fits no other key", async () => {
    await create("k-1");
    await create("k-2", { name: "m" });
    const { rows } = await api.db.raw(
      "select string_agg(idempotency_keys::text, ' ') as text from idempotency_keys",
    );
    expect(rows[0].text).not.toContain("show-once");
    expect(rows[0].text).not.toContain(Buffer.from("show-once").toString("hex"));
    await api.db.raw(
      "update idempotency_keys set answer_sealed = (select answer_sealed from idempotency_keys where key = 'k-1') where key = 'k-2'",
    );
    expect((await create("k-2", { name: "m" })).status).toBe(500);
  });

  test("is swept when it is 24 hours old, not before", async () => {
    const idempotency = createIdempotency({ ...api, log: api.log });
    await create("k-1");
    await api
      .db("idempotency_keys")
      .update({ created_at: new Date(api.clock.now().getTime() - 86_400_000 + 1) });
    await idempotency.sweep();
    expect(await api.db("idempotency_keys")).toHaveLength(1);
    await api.db("idempotency_keys").update({ created_at: new Date(api.clock.now().getTime() - 86_400_000) });
    await idempotency.sweep();
    expect(await api.db("idempotency_keys")).toEqual([]);
  });
});
