import { describe, expect, test } from "vitest";
import { deliveryIdOf, endpointIdOf } from "../../src/webhooks/endpoint.ts";
import { runningApi } from "../support/api.ts";
import { errorCode } from "../support/platform_world.ts";
import { type Sending, sending } from "./delivery_calls.ts";

const api = runningApi();
const iso = () => api.clock.now().toISOString();

const statesOf = ({ connectionId }: Sending) =>
  api
    .db("webhook_deliveries")
    .where({ endpoint_id: endpointIdOf(connectionId) })
    .orderBy("created_at")
    .pluck("state");
const shownState = async ({ person, platformId }: Sending) => {
  const one = await person.client.get(`/v1/service/platforms/${platformId}`);
  const { body } = await person.client.get("/v1/service/platforms");
  const [listed] = body.items as { callback_state: string }[];
  expect(listed?.callback_state).toBe(one.body.callback_state);
  return one.body.callback_state;
};
const suspend = ({ connectionId }: Sending) =>
  api
    .db("webhook_endpoints")
    .where({ endpoint_id: endpointIdOf(connectionId) })
    .update({ state: "suspended", suspended_at: api.clock.now(), suspend_reason: "gone" });

describe("a callback", () => {
  test("can be paused and resumed repeatedly, and its platform shows the state", async () => {
    const own = await sending(api);
    const waiting = await own.delivery({ state: "pending", attempts: 0 });
    expect(await shownState(own)).toBe("active");
    for (const _ of [1, 2]) {
      const paused = await own.post("callback/pause");
      expect([paused.status, paused.body]).toEqual([
        200,
        { connection_id: own.connectionId, callback_state: "paused" },
      ]);
      expect([await shownState(own), await statesOf(own)]).toEqual(["paused", ["held"]]);
    }
    for (const _ of [1, 2]) {
      const resumed = await own.post("callback/resume");
      expect([resumed.status, resumed.body]).toEqual([
        200,
        { connection_id: own.connectionId, callback_state: "active" },
      ]);
      expect([await shownState(own), await statesOf(own)]).toEqual(["active", ["pending"]]);
    }
    const row = await api.db("webhook_deliveries").where({ delivery_id: waiting }).first();
    expect(row?.next_attempt_at).toEqual(api.clock.now());
  });

  test("can be resumed at most 20 times a minute, but paused any number of times", async () => {
    const own = await sending(api);
    const answers: number[] = [];
    for (let n = 0; n < 21; n++) {
      expect((await own.post("callback/pause")).status).toBe(200);
      answers.push((await own.post("callback/resume")).status);
    }
    expect(answers).toEqual([...Array(20).fill(200), 429]);
    expect(await shownState(own)).toBe("paused");
    expect((await (await sending(api)).post("callback/resume")).status).toBe(200);
  });

  test("can be resumed after a suspension, and held deliveries are sent or cancelled as requested", async () => {
    const own = await sending(api);
    await own.delivery({ state: "held" });
    await suspend(own);
    expect(await shownState(own)).toBe("suspended");
    await own.post("callback/resume", { backlog: "replay" });
    expect([await shownState(own), await statesOf(own)]).toEqual(["active", ["pending"]]);
    await own.post("callback/pause");
    await own.post("callback/resume", { backlog: "discard" });
    expect([await shownState(own), await statesOf(own)]).toEqual(["active", ["cancelled"]]);
  });

  test("remains paused, but not suspended, when its URL is set again", async () => {
    const own = await sending(api);
    await own.delivery({ state: "held" });
    await own.post("callback/pause");
    await own.setUrl("https://shop.example.com/other");
    expect([await shownState(own), await statesOf(own)]).toEqual(["paused", ["held"]]);
    await own.post("callback/resume");
    await suspend(own);
    await own.setUrl("https://shop.example.com/hook");
    expect(await shownState(own)).toBe("active");
  });

  test("must have a URL to be paused, resumed or tested", async () => {
    const own = await sending(api);
    await own.delivery({ state: "held" });
    await own.post("callback/pause");
    await own.setUrl(null);
    for (const path of ["callback/pause", "callback/resume", "deliveries/test"]) {
      const answer = await own.post(path);
      expect([answer.status, errorCode(answer)]).toEqual([409, "no_callback"]);
    }
    expect([await shownState(own), await statesOf(own)]).toEqual(["paused", ["held"]]);
  });

  test("cannot be found by a different account, or after the connection was removed", async () => {
    const [own, other] = [await sending(api), await sending(api)];
    const paths = ["callback/pause", "callback/resume", "deliveries/test"];
    for (const path of paths) {
      const answer = await own.post(path, undefined, other.person);
      expect([answer.status, errorCode(answer)]).toEqual([404, "not_found"]);
    }
    expect(await shownState(own)).toBe("active");
    await own.person.client.call("DELETE", `/v1/service/connections/${own.connectionId}`);
    for (const path of paths) expect(errorCode(await own.post(path))).toBe("not_found");
  });

  test("can be resumed only with a known value of backlog", async () => {
    const own = await sending(api);
    for (const body of [{ backlog: "keep" }, { backlog: 1 }, [], "replay"]) {
      expect(errorCode(await own.post("callback/resume", body))).toBe("invalid_request");
    }
  });
});

describe("a test event", () => {
  test("enters the outbox like any event, and the response contains the event id and the delivery id", async () => {
    const own = await sending(api);
    const answer = await own.post("deliveries/test");
    expect(answer.status).toBe(201);
    const { event_id, delivery_id } = answer.body as { event_id: string; delivery_id: string };
    const row = await api.db("outbox").where({ event_id }).first();
    expect(row).toMatchObject({ aggregatetype: "connection", aggregateid: own.connectionId });
    expect(JSON.parse(row?.payload ?? "")).toEqual({
      ...{ event: "callback.test", connection_id: own.connectionId },
      ...{ org_id: own.person.accountId, sent_at: iso() },
    });
    expect(delivery_id).toBe(deliveryIdOf(endpointIdOf(own.connectionId), event_id));
  });

  test("can be sent five times a minute for each connection, and only once for an idempotency key", async () => {
    const own = await sending(api);
    const path = `/v1/service/connections/${own.connectionId}/deliveries/test`;
    const keyed = () => own.person.client.post(path, undefined, { headers: { "idempotency-key": "k" } });
    const [first, again] = [await keyed(), await keyed()];
    expect(again.body).toEqual(first.body);
    for (let n = 1; n < 5; n++) expect((await own.post("deliveries/test")).status).toBe(201);
    const late = await own.post("deliveries/test");
    expect([late.status, errorCode(late)]).toEqual([429, "rate_limited"]);
    expect(Number(late.headers.get("retry-after"))).toBeGreaterThan(0);
    const events = await api.events(own.connectionId);
    expect(events.filter(({ event }) => event === "callback.test")).toHaveLength(5);
    const other = await sending(api);
    expect((await other.post("deliveries/test")).status).toBe(201);
  });

  test("cannot be sent while the callback is paused", async () => {
    const own = await sending(api);
    await own.post("callback/pause");
    const answer = await own.post("deliveries/test");
    expect([answer.status, errorCode(answer)]).toEqual([409, "callback_inactive"]);
    const events = await api.events(own.connectionId);
    expect(events.map(({ event }) => event)).toEqual(["connection.created"]);
  });
});
