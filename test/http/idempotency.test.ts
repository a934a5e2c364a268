import { describe, expect, test } from "vitest";
import { z } from "zod";
import { ApiError } from "../../src/errors.ts";
import { createIdempotency } from "../../src/http/idempotency.ts";
import type { Route } from "../../src/route.ts";
import { leaderOf, OPERATOR_TOKEN } from "../support/api.ts";
import { until } from "../support/process.ts";
import { conflict, type KeyedCalls, keyedCalls, PATH } from "./support/keyed_calls.ts";
import { refusal } from "./support/sample_routes.ts";

const EITHER = "/v1/service/either";
const ASKED = "/v1/service/asked";

function unkeyed(calls: KeyedCalls, access: Route["access"]): Route {
  const { idempotent, ...rest } = calls.creation({
    id: `unkeyed_${access}`,
    path: `/v1/service/unkeyed/${access}`,
    access,
  });
  return rest;
}

const calls = keyedCalls((of) => [
  of.creation({ id: "create_part", path: "/v1/service/things/{id}/parts" }),
  of.creation({ id: "create_by_key", path: "/v1/service/keyed", access: "api_key" }),
  of.creation({ id: "create_by_either", path: EITHER, access: "account" }),
  of.creation({ id: "create_asked", path: ASKED, query: z.object({ of: z.string() }) }),
  of.creation({ id: "change_thing", path: `${PATH}/{id}`, method: "DELETE" }),
  of.creation({ id: "gateway", path: "/v1/service/gateway", access: "public", idempotent: "foreign" }),
  ...(["public", "session", "api_key", "account", "operator"] as const).map((access) => unkeyed(of, access)),
  of.creation({
    id: "with_cookies",
    path: "/v1/service/cookies",
    handle: async () => ({
      body: { id: 1, name: "n", secret: "s" },
      cookies: [{ name: "session", value: "", maxAgeSeconds: 0 }],
    }),
  }),
]);

describe("an idempotency key", () => {
  test("repeats the first answer with its secrets and headers, and marks the repetition", async () => {
    const first = await calls.create("k-1");
    const again = await calls.create("k-1");
    expect(first).toMatchObject({ status: 201, body: { id: 1, name: "n", secret: "show-once" } });
    expect(first.headers.get("idempotent-replayed")).toBeNull();
    expect(again.status).toBe(201);
    expect(again.text).toBe(first.text);
    expect(again.headers.get("location")).toBe("/things/1");
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(calls.made).toBe(1);
  });

  test("can be omitted: each call without a key creates something", async () => {
    await calls.create(undefined);
    await calls.create(undefined);
    expect(calls.made).toBe(2);
  });

  test("with a different body causes a conflict and creates nothing", async () => {
    await calls.create("k-1");
    expect(await calls.create("k-1", { name: "other" })).toMatchObject(conflict);
    expect(calls.made).toBe(1);
  });

  test("applies to one account, one route and one set of parameters", async () => {
    const eve = calls.api.client();
    await eve.onboard(`eve${Date.now()}@example.com`);
    await calls.create("k-1");
    expect((await calls.create("k-1", undefined, eve)).body).toMatchObject({ id: 2 });
    expect((await calls.create("k-1", undefined, calls.ada, `${PATH}/1/parts`)).body).toMatchObject({
      id: 3,
    });
    expect(await calls.create("k-1", undefined, calls.ada, `${PATH}/2/parts`)).toMatchObject(conflict);
  });

  test("with a different query causes a conflict", async () => {
    expect((await calls.create("k-1", undefined, calls.ada, `${ASKED}?of=1`)).body).toMatchObject({ id: 1 });
    expect(await calls.create("k-1", undefined, calls.ada, `${ASKED}?of=2`)).toMatchObject(conflict);
    expect((await calls.create("k-1", undefined, calls.ada, `${ASKED}?of=1`)).body).toMatchObject({ id: 1 });
  });

  test("in a call with an API key applies to the API key's account", async () => {
    await calls.create("k-1", undefined, calls.api.client(), "/v1/service/keyed");
    const again = await calls.create("k-1", undefined, calls.other.client(), "/v1/service/keyed");
    expect(again).toMatchObject({ status: 201, body: { id: 1 } });
    expect(calls.made).toBe(1);
  });

  test("repeats an answer only for the same caller: the person, or one connection", async () => {
    const keyed = (apiKey: string | undefined, client = calls.api.client()) =>
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
    expect((await keyed(undefined, calls.ada)).body).toMatchObject({ id: 1 });
    expect((await keyed("ada-shop")).body).toMatchObject({ id: 2 });
    expect((await keyed("ada-bank")).body).toMatchObject({ id: 3 });
    expect((await keyed("ada-shop", calls.ada)).body).toMatchObject({ id: 2 });
    expect((await keyed("ada-bank")).body).toMatchObject({ id: 3 });
    expect((await keyed(undefined, calls.adaThere())).body).toMatchObject({ id: 1 });
    const elsewhere = calls.api.client();
    await elsewhere.signIn("ada@example.com");
    expect((await keyed(undefined, elsewhere)).body).toMatchObject({ id: 1 });
    expect(calls.made).toBe(3);
  });

  test("works with every method that changes something", async () => {
    const remove = () =>
      calls.ada.call("DELETE", `${PATH}/7`, { body: { name: "n" }, headers: { "idempotency-key": "k-1" } });
    expect((await remove()).headers.get("idempotent-replayed")).toBeNull();
    expect((await remove()).headers.get("idempotent-replayed")).toBe("true");
    expect(calls.made).toBe(1);
  });

  test.each(["public", "session", "api_key", "account", "operator"])(
    "has no effect in a call with the access %s if the operation does not use such keys, and a header says so",
    async (access) => {
      const credentials = {
        authorization: `Bearer ${OPERATOR_TOKEN}`,
        "x-deputize-cluster": "c1",
        "x-deputize-epoch": String(await leaderOf(calls.api, "c1")),
        ...(access === "api_key" ? { "x-service-api-key": "ada-shop" } : {}),
      };
      const client = access === "operator" ? calls.api.operatorClient() : calls.ada;
      const call = (headers: Record<string, string>) =>
        client.call("POST", `/v1/service/unkeyed/${access}`, {
          body: { name: "n" },
          headers: { ...credentials, ...headers },
        });
      for (const key of ["k-1", "k-1", "two words", "k".repeat(300)]) {
        const answer = await call({ "idempotency-key": key });
        expect([answer.status, answer.headers.get("idempotency-key-ignored")]).toEqual([201, "true"]);
      }
      expect(calls.made).toBe(4);
      expect((await call({})).headers.get("idempotency-key-ignored")).toBeNull();
    },
  );

  test("has no effect in a call that forwards other people's headers", async () => {
    expect((await calls.create("k-1", undefined, calls.ada, "/v1/service/gateway")).body).toMatchObject({
      id: 1,
    });
    expect((await calls.create("two words", undefined, calls.ada, "/v1/service/gateway")).body).toMatchObject(
      {
        id: 2,
      },
    );
  });

  test("does not keep an answer that sets cookies", async () => {
    expect((await calls.create("k-1", undefined, calls.ada, "/v1/service/cookies")).status).toBe(500);
    expect(calls.api.lines.at(-1)).toContain("with_cookies: an answer with cookies cannot be kept");
  });

  test("works across replicas", async () => {
    await calls.create("k-1");
    expect((await calls.create("k-1", undefined, calls.adaThere())).body).toMatchObject({ id: 1 });
    expect(calls.made).toBe(1);
  });

  test("repeats the first answer for 24 hours, and then lets a call create something again", async () => {
    const start = calls.api.clock.now();
    const age = async (milliseconds: number) =>
      calls.api.db("idempotency_keys").update({ created_at: new Date(start.getTime() - milliseconds) });
    await calls.create("k-1");
    await age(86_400_000 - 1);
    expect((await calls.create("k-1")).body).toMatchObject({ id: 1 });
    await age(86_400_000);
    expect((await calls.create("k-1", { name: "other" })).body).toMatchObject({ id: 2, name: "other" });
    expect((await calls.create("k-1", { name: "other" })).body).toMatchObject({ id: 2 });
  });

  test("can be used again after a refused call, even with a different body", async () => {
    calls.before = refusal("platform_limit");
    expect(await calls.create("k-1")).toMatchObject({
      status: 409,
      body: { error: { code: "platform_limit" } },
    });
    calls.before = async () => {};
    expect((await calls.create("k-1", { name: "better" })).body).toMatchObject({ id: 1, name: "better" });
  });

  test.each([
    ["refusal", "is free", 0],
    ["answer", "contains the answer", 1],
  ])("changes its state before the response is sent: after the %s, the key %s", async (end, _, kept) => {
    const { promise: held, resolve: go } = Promise.withResolvers<void>();
    calls.before = async () => {
      await held;
      if (end === "refusal") throw new ApiError("platform_limit");
    };
    const first = calls.create("k-1");
    await expect.poll(async () => (await calls.api.db("idempotency_keys")).length).toBe(1);
    const holder = await calls.api.db.transaction();
    await holder("idempotency_keys").forUpdate().first();
    go();
    const waiting = { datname: calls.api.db.raw("current_database()"), wait_event_type: "Lock" };
    await until(
      "the key's row is waited for",
      async () => (await calls.api.db("pg_stat_activity").where(waiting)).length > 0,
    );
    const soon = new Promise((resolve) => setTimeout(resolve, 300, "not answered"));
    expect(await Promise.race([first, soon])).toBe("not answered");
    await holder.commit();
    expect((await first).status).toBe(end === "answer" ? 201 : 409);
    expect(await calls.api.db("idempotency_keys").whereNotNull("answer_sealed")).toHaveLength(kept);
  });

  test("stays unused after a malformed call", async () => {
    expect((await calls.create("k-1", { name: 7 })).status).toBe(400);
    expect((await calls.create("k-1")).status).toBe(201);
  });

  test.each(["x", "~".repeat(255), "019a9a9a-0000-7000-8000-000000000000", "a/b?c=d"])(
    "may be %s",
    async (key) => {
      expect((await calls.create(key)).status).toBe(201);
      expect((await calls.create(key)).headers.get("idempotent-replayed")).toBe("true");
    },
  );

  test.each([
    ["256 characters", "x".repeat(256)],
    ["a space inside", "a b"],
    ["empty", ""],
    ["not ASCII", "\u00e9"],
  ])("causes an error if it is invalid: %s", async (_, key) => {
    expect(await calls.create(key)).toMatchObject({
      status: 400,
      body: { error: { code: "invalid_request" } },
    });
    expect(calls.made).toBe(0);
  });

  test("has an encrypted answer, which cannot be decrypted under a different idempotency key", async () => {
    await calls.create("k-1");
    await calls.create("k-2", { name: "m" });
    const { rows } = await calls.api.db.raw(
      "select string_agg(idempotency_keys::text, ' ') as text from idempotency_keys",
    );
    expect(rows[0].text).not.toContain("show-once");
    expect(rows[0].text).not.toContain(Buffer.from("show-once").toString("hex"));
    await calls.api.db.raw(
      "update idempotency_keys set answer_sealed = (select answer_sealed from idempotency_keys where key = 'k-1') where key = 'k-2'",
    );
    expect((await calls.create("k-2", { name: "m" })).status).toBe(500);
  });

  test("stays stored for 24 hours, and not longer", async () => {
    const idempotency = createIdempotency({ ...calls.api, log: calls.api.log });
    await calls.create("k-1");
    await calls.api
      .db("idempotency_keys")
      .update({ created_at: new Date(calls.api.clock.now().getTime() - 86_400_000 + 1) });
    await idempotency.sweep(calls.api.clock.now());
    expect(await calls.api.db("idempotency_keys")).toHaveLength(1);
    await calls.api
      .db("idempotency_keys")
      .update({ created_at: new Date(calls.api.clock.now().getTime() - 86_400_000) });
    await idempotency.sweep(calls.api.clock.now());
    expect(await calls.api.db("idempotency_keys")).toEqual([]);
  });
});
