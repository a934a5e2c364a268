import { describe, expect, test } from "vitest";
import { stepRecovery } from "../../src/webhooks/resend_and_recover.ts";
import { runningApi } from "../support/api.ts";
import { errorCode } from "../support/platform_world.ts";
import { NOBODYS, type Sending, sending } from "./delivery_calls.ts";

const api = runningApi();
const iso = (seconds: number) => new Date(api.clock.now().getTime() + seconds * 1000).toISOString();
const recover = ({ post }: Sending, body: object = { since: iso(-3600) }) => post("deliveries/recover", body);
const step = () => stepRecovery({ database: api.db, clock: api.clock });
const stateOf = async (deliveryId: string) =>
  (await api.db("webhook_deliveries").where({ delivery_id: deliveryId }).first("state"))?.state;

const forgetRates = () => api.db("rate_limits").delete();

describe("POST …/deliveries/recover", () => {
  test("opens a recovery, whose progress can be read until it is done", async () => {
    const own = await sending(api);
    const failed = await own.delivery({}, 60);
    const rejected = await own.delivery({ state: "rejected" }, 50);
    const delivered = await own.delivery({ state: "delivered" }, 40);
    const opened = await recover(own);
    expect([opened.status, opened.body]).toEqual([
      201,
      {
        recovery_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        ...{ state: "running", since: iso(-3600), until: iso(0), states: ["failed", "rejected", "blocked"] },
        ...{ examined: 0, resent: 0, left_out: 0, created_at: iso(0), finished_at: null },
      },
    ]);
    const path = `recoveries/${opened.body.recovery_id}`;
    expect((await own.get(path)).body).toEqual(opened.body);
    while (await step());
    expect([await stateOf(failed), await stateOf(rejected), await stateOf(delivered)]).toEqual([
      ...["pending", "pending", "delivered"],
    ]);
    const done = await own.get(path);
    expect(done.body).toMatchObject({ state: "done", examined: 3, resent: 2, finished_at: iso(0) });
    expect((await own.get("recoveries")).body).toEqual({ items: [done.body], next_cursor: null });
  });

  test("uses the given states and range, but excludes deliveries created after the call", async () => {
    const own = await sending(api);
    const opened = await recover(own, {
      ...{ since: iso(-100), until: iso(100), states: ["delivered", "delivered"] },
    });
    expect(opened.body).toMatchObject({ since: iso(-100), until: iso(0), states: ["delivered"] });
    while (await step());
    const earlier = await recover(own, { since: iso(-100), until: iso(-99.999) });
    expect(earlier.body).toMatchObject({ until: iso(-99.999) });
    while (await step());
  });

  test.each([
    {},
    { since: "then" },
    { since: 7 },
    { states: [] },
    { states: ["held"] },
    { states: ["cancelled"] },
    { states: ["pending"] },
    { states: "failed" },
    { until: "soon" },
  ])("rejects %j", async (body) => {
    const own = await sending(api);
    const since = "states" in body || "until" in body ? { since: iso(-1) } : {};
    const answer = await recover(own, { ...since, ...body });
    expect([answer.status, errorCode(answer)]).toEqual([400, "invalid_request"]);
  });

  test("rejects an empty range", async () => {
    const own = await sending(api);
    const codeOf = async (body: object) => errorCode(await recover(own, body));
    expect(await codeOf({ since: iso(0) })).toBe("invalid_request");
    expect(await codeOf({ since: iso(-1), until: iso(-1) })).toBe("invalid_request");
    expect(await codeOf({ since: iso(-1), until: iso(-2) })).toBe("invalid_request");
    expect(await codeOf({ since: iso(-0.001) })).toBeUndefined();
    while (await step());
  });

  test("allows one open recovery for a connection, even with concurrent calls", async () => {
    const own = await sending(api);
    const answers = await Promise.all(Array.from({ length: 8 }, () => recover(own)));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array(7).fill(409)]);
    await forgetRates();
    expect(errorCode(await recover(own))).toBe("recovery_open");
    const other = await sending(api);
    expect((await recover(other)).status).toBe(201);
    while (await step());
    expect((await recover(own)).status).toBe(201);
    while (await step());
    await forgetRates();
  });

  test("allows 10 recoveries a day", async () => {
    const own = await sending(api);
    for (let n = 0; n < 10; n++) {
      expect((await recover(own)).status).toBe(201);
      while (await step());
    }
    const late = await recover(own);
    expect([late.status, errorCode(late)]).toEqual([429, "rate_limited"]);
  });

  test("requires a callback that is active and has a URL", async () => {
    const own = await sending(api);
    await own.post("callback/pause");
    expect(errorCode(await recover(own))).toBe("callback_inactive");
    await own.setUrl(null);
    expect(errorCode(await recover(own))).toBe("no_callback");
    expect((await own.get("recoveries")).body.items).toEqual([]);
  });

  test("opens a recovery, which is cancelled when the backlog is discarded", async () => {
    const own = await sending(api);
    const { body } = await recover(own);
    await own.post("callback/pause");
    await own.post("callback/resume", { backlog: "discard" });
    const after = await own.get(`recoveries/${body.recovery_id}`);
    expect(after.body).toMatchObject({ state: "cancelled", finished_at: iso(0) });
  });

  test("returns not_found to the owner of a different connection, who cannot read the recovery either", async () => {
    const [own, other] = [await sending(api), await sending(api)];
    const { body } = await recover(own);
    const id = String(body.recovery_id);
    while (await step());
    expect(errorCode(await own.get(`recoveries/${id}`, other.person))).toBe("not_found");
    expect(errorCode(await own.get("recoveries", other.person))).toBe("not_found");
    for (const nobodys of [id, ...NOBODYS]) {
      expect(errorCode(await other.get(`recoveries/${nobodys}`))).toBe("not_found");
    }
    const foreign = await own.post("deliveries/recover", { since: iso(-60) }, other.person);
    expect(errorCode(foreign)).toBe("not_found");
    expect((await own.get("recoveries")).body.items).toHaveLength(1);
  });

  test("opens recoveries that can be listed in pages, newest first", async () => {
    const own = await sending(api);
    const ids: unknown[] = [];
    for (let n = 0; n < 3; n++) {
      api.clock.advance(1);
      ids.unshift((await recover(own)).body.recovery_id);
      while (await step());
    }
    const idsIn = ({ body }: { body: Record<string, unknown> }) =>
      (body.items as { recovery_id: string }[]).map(({ recovery_id }) => recovery_id);
    const first = await own.get("recoveries?limit=2");
    const second = await own.get(`recoveries?limit=2&cursor=${first.body.next_cursor}`);
    expect([idsIn(first), idsIn(second)]).toEqual([ids.slice(0, 2), ids.slice(2)]);
  });
});
