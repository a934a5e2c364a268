import { describe, expect, onTestFinished, test, vi } from "vitest";
import { ApiError } from "../../src/errors.ts";
import { createIdempotency } from "../../src/http/idempotency.ts";
import { VaultRefused, VaultUnavailable } from "../../src/vault/transport.ts";
import { conflict, keyedCalls, PATH } from "./support/keyed_calls.ts";

const SECRET_PATH = `${PATH}/secret`;
const calls = keyedCalls((made) => [
  made.creation({ id: "create_secret", path: SECRET_PATH, showsSecret: true }),
]);

describe("an idempotency key whose first call is running or was aborted", () => {
  test("creates only once when many calls send the key concurrently to two replicas, and all calls get the same answer", async () => {
    for (let round = 0; round < 10; round += 1) {
      calls.made = 0;
      calls.before = () => new Promise((resolve) => setTimeout(resolve, 20));
      const answers = await Promise.all(
        [calls.ada, calls.adaThere(), calls.ada, calls.adaThere()].map((client) =>
          calls.create(`race-${round}`, undefined, client),
        ),
      );
      expect(answers.map(({ status }) => status)).toEqual([201, 201, 201, 201]);
      expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
      expect(calls.made).toBe(1);
    }
  });

  test("lets at most eight calls wait for the first call, without database queries", async () => {
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    calls.before = () => held;
    const first = calls.create("k-1");
    await expect.poll(async () => (await calls.api.db("idempotency_keys")).length).toBe(1);
    let asked = 0;
    const count = ({ sql }: { sql: string }) => {
      if (sql.includes("idempotency_keys")) asked += 1;
    };
    const waiting = Array.from({ length: 8 }, () => calls.create("k-1"));
    await new Promise((resolve) => setTimeout(resolve, 300));
    calls.api.db.on("query", count);
    expect(await calls.create("k-1")).toMatchObject(conflict);
    await new Promise((resolve) => setTimeout(resolve, 500));
    calls.api.db.off("query", count);
    release();
    const answers = await Promise.all([first, ...waiting]);
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect([asked, calls.made]).toEqual([0, 1]);
    const replayed = answers.map(({ headers }) => headers.get("idempotent-replayed"));
    expect(replayed).toEqual([null, ...Array.from({ length: 8 }, () => "true")]);
  });

  test("lets a call wait ten seconds for the first call", async () => {
    const { db, secretBox, clock, log } = calls.api;
    const idempotency = createIdempotency({ db, secretBox, clock, log });
    const call = {
      ...{ accountId: calls.adaId, caller: "person", routeId: "create_thing", key: "k-1" },
      bodyHash: Buffer.alloc(32),
    };
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    vi.useFakeTimers({ toFake: ["performance", "setTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const first = idempotency.once(call, async () => {
      await held;
      return { status: 201, body: {}, headers: {} };
    });
    let refusal: unknown;
    void idempotency
      .once(call, () => Promise.reject(new Error("it ran twice")))
      .catch((error) => {
        refusal = error;
      });
    await vi.advanceTimersByTimeAsync(9_999);
    expect(refusal).toBeUndefined();
    await vi.advanceTimersByTimeAsync(1);
    expect(refusal).toMatchObject({ code: "idempotency_conflict" });
    vi.useRealTimers();
    release();
    expect(await first).toMatchObject({ replayed: false });
  });

  test("does not return the first answer's secret to waiting calls of a different sign-in", async () => {
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    calls.before = () => held;
    const elsewhere = calls.api.client();
    await elsewhere.signIn("ada@example.com");
    const first = calls.create("k-1", undefined, calls.ada, SECRET_PATH);
    await expect.poll(async () => (await calls.api.db("idempotency_keys")).length).toBe(1);
    const second = calls.create("k-1", undefined, elsewhere, SECRET_PATH);
    await new Promise((resolve) => setTimeout(resolve, 200));
    release();
    expect((await first).text).toContain("show-once");
    expect(await second).toMatchObject({ status: 409, body: { error: { code: "answer_not_kept" } } });
    expect((await second).text).not.toContain("show-once");
    expect(calls.made).toBe(1);
  });

  test("with a different body causes a conflict while the first call still runs", async () => {
    let release = (_: unknown): void => {};
    calls.before = () => new Promise((resolve) => (release = resolve));
    const first = calls.create("k-1");
    await expect.poll(async () => (await calls.api.db("idempotency_keys")).length).toBe(1);
    expect(await calls.create("k-1", { name: "other" })).toMatchObject(conflict);
    release(undefined);
    expect((await first).status).toBe(201);
  });

  test("lets a waiting call run after the first call was refused", async () => {
    let refuse = (_: unknown): void => {};
    calls.before = () => new Promise((_, reject) => (refuse = reject));
    const first = calls.create("k-1");
    await expect.poll(async () => (await calls.api.db("idempotency_keys")).length).toBe(1);
    const second = calls.create("k-1");
    await new Promise((resolve) => setTimeout(resolve, 100));
    calls.before = async () => {};
    refuse(new ApiError("platform_limit"));
    expect((await first).status).toBe(409);
    expect(await second).toMatchObject({ status: 201, body: { id: 1 } });
  });

  test("does not let a waiting call run if the caller has signed out in the meantime", async () => {
    const gone = calls.api.client();
    await gone.onboard(`gone${Date.now()}@example.com`);
    let refuse = (_: unknown): void => {};
    calls.before = () => new Promise((_, reject) => (refuse = reject));
    const first = calls.create("k-1", undefined, gone);
    await expect.poll(async () => (await calls.api.db("idempotency_keys")).length).toBe(1);
    const second = calls.create("k-1", undefined, gone);
    await new Promise((resolve) => setTimeout(resolve, 300));
    await gone.post("/v1/auth/logout", { everywhere: true });
    refuse(new ApiError("platform_limit"));
    expect((await first).status).toBe(409);
    expect([(await second).status, calls.made]).toEqual([401, 0]);
  });

  test("stays locked for a minute after the failure of a call that may have changed something", async () => {
    calls.before = () => Promise.reject(new Error("broken"));
    const began = calls.api.clock.now().getTime();
    expect((await calls.create("k-1")).status).toBe(500);
    calls.before = async () => {};
    const locked = await calls.api.db("idempotency_keys").first("locked_until");
    expect(locked!.locked_until).toEqual(new Date(began + 60_000));
    const again = calls.create("k-1");
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(calls.made).toBe(0);
    await calls.api.db("idempotency_keys").update({ locked_until: new Date(began) });
    expect(await again).toMatchObject({ status: 201, body: { id: 1 } });
  });

  test.each([
    ["is unavailable", new VaultUnavailable("unreachable", "away")],
    ["refuses", new VaultRefused("rate_limited", "Too many calls", 429, 1)],
  ])("can be used again immediately if the vault did not sign because it %s", async (_, error) => {
    calls.before = () => Promise.reject(error);
    expect((await calls.create("k-1")).status).toBe(503);
    calls.before = async () => {};
    expect(await calls.create("k-1")).toMatchObject({ status: 201, body: { id: 1 } });
  });

  test("can be used again, with the same body only, a minute after the first call's process died", async () => {
    const start = calls.api.clock.now();
    await calls.create("k-1");
    const died = async (milliseconds: number) =>
      calls.api
        .db("idempotency_keys")
        .update({ answer_sealed: null, locked_until: new Date(start.getTime() + milliseconds) });
    await died(0);
    expect(await calls.create("k-1", { name: "other" })).toMatchObject(conflict);
    expect((await calls.create("k-1")).body).toMatchObject({ id: 2 });
    await died(1);
    const waiting = calls.create("k-1");
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(calls.made).toBe(2);
    await died(0);
    expect((await waiting).body).toMatchObject({ id: 3 });
  });

  test("keeps the answer of a second run that took the key over, whatever the result of the first run is", async () => {
    for (const end of ["answer", "refusal"] as const) {
      const key = `k-${end}`;
      const { promise: held, resolve: release } = Promise.withResolvers<void>();
      calls.before = async () => {
        calls.before = async () => {};
        await held;
        if (end === "refusal") throw new ApiError("platform_limit");
      };
      const first = calls.create(key);
      await expect.poll(async () => (await calls.api.db("idempotency_keys").where({ key })).length).toBe(1);
      await calls.api
        .db("idempotency_keys")
        .where({ key })
        .update({ locked_until: new Date(calls.api.clock.now().getTime()) });
      // This replica knows that the first run continues. The other replica does not.
      const second = await calls.create(key, undefined, calls.adaThere());
      release();
      expect((await first).status).toBe(end === "answer" ? 201 : 409);
      const again = await calls.create(key);
      expect([again.headers.get("idempotent-replayed"), again.body]).toEqual(["true", second.body]);
    }
  });
});
