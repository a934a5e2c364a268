import { describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { deliveryBodyContext } from "../../src/events/secrets.ts";
import { endpointIdOf } from "../../src/webhooks/endpoint.ts";
import { runningApi } from "../support/api.ts";
import { errorCode } from "../support/platform_world.ts";
import { NOBODYS, noteAttempts, sending } from "./delivery_calls.ts";

const api = runningApi();
const iso = (seconds: number) => new Date(api.clock.now().getTime() + seconds * 1000).toISOString();
const idsOf = ({ body }: { body: Record<string, unknown> }) =>
  (body.items as { delivery_id: string }[]).map(({ delivery_id }) => delivery_id);

describe("the list of deliveries", () => {
  test("returns pages, newest first, with the result of the last attempt", async () => {
    const { get, delivery } = await sending(api);
    const old = await delivery({ state: "delivered", attempts: 2 }, 30);
    const waiting = await delivery({ state: "pending", attempts: 0 }, 20);
    const recent = await delivery({ attempts: 1 }, 10);
    await noteAttempts(api, old, { outcome: "failed", status: 500 }, { outcome: "delivered", status: 204 });
    await noteAttempts(api, recent, { outcome: "failed", detail: "ECONNREFUSED" });
    const first = await get("deliveries?limit=2");
    expect(first.status).toBe(200);
    expect(first.body.items).toMatchObject([
      {
        ...{ delivery_id: recent, event: "delegation.denied", state: "failed", attempts: 1 },
        ...{ created_at: iso(-10), next_attempt_at: null, finished_at: iso(-10) },
        ...{ last_outcome: "failed", last_status: null },
      },
      {
        ...{ delivery_id: waiting, state: "pending", attempts: 0, next_attempt_at: iso(-20) },
        ...{ finished_at: null, last_outcome: null, last_status: null },
      },
    ]);
    const second = await get(`deliveries?limit=2&cursor=${first.body.next_cursor}`);
    expect(second.body).toMatchObject({
      items: [{ delivery_id: old, state: "delivered", last_outcome: "delivered", last_status: 204 }],
      next_cursor: null,
    });
  });

  test("can be filtered by state, event and time of creation", async () => {
    const { get, delivery } = await sending(api);
    const old = await delivery({ state: "delivered" }, 30);
    const created = await delivery({ event_type: "connection.created" }, 20);
    const recent = await delivery({}, 10);
    const found = async (query: string) => idsOf(await get(`deliveries?${query}`));
    expect(await found("state=delivered")).toEqual([old]);
    expect(await found("state=failed")).toEqual([recent, created]);
    expect(await found("state=held")).toEqual([]);
    expect(await found("event=connection.created")).toEqual([created]);
    expect(await found(`since=${iso(-20)}`)).toEqual([recent, created]);
    expect(await found(`since=${iso(-19.999)}`)).toEqual([recent]);
    expect(await found(`until=${iso(-20)}`)).toEqual([old]);
    expect(await found(`until=${iso(-19.999)}`)).toEqual([created, old]);
    expect(await found(`state=failed&event=delegation.denied&since=${iso(-30)}`)).toEqual([recent]);
  });

  test("contains 25 deliveries by default, and accepts limits from 1 to 100", async () => {
    const { get, delivery } = await sending(api);
    for (let n = 0; n < 26; n++) await delivery();
    const ids = async (query: string) => idsOf(await get(`deliveries${query}`));
    expect((await ids("")).length).toBe(25);
    expect(new Set(await ids("?limit=100")).size).toBe(26);
    expect((await ids("?limit=1")).length).toBe(1);
    for (const query of ["limit=0", "limit=101", "state=sent", "event=none", "since=then", "cursor=x"]) {
      expect(errorCode(await get(`deliveries?${query}`))).toBe("invalid_request");
    }
  });

  test("starts empty, and returns not_found after the connection was removed", async () => {
    const { get, person, connectionId } = await sending(api);
    expect((await get("deliveries")).body).toEqual({ items: [], next_cursor: null });
    await person.client.call("DELETE", `/v1/service/connections/${connectionId}`);
    expect(errorCode(await get("deliveries"))).toBe("not_found");
  });
});

describe("GET …/deliveries/{delivery_id}", () => {
  test("returns the exact body, and the attempts with the latest first", async () => {
    const { get, delivery } = await sending(api);
    const body = '{"event":"delegation.denied",  "request_id":"r\u00e9q"}';
    const id = await delivery({ body, attempts: 2 });
    const excerpt = Buffer.from("no \u001b[31mway\u202e");
    await noteAttempts(
      api,
      id,
      { outcome: "failed", detail: "ECONNREFUSED" },
      { outcome: "rejected", status: 404, response_excerpt: excerpt },
    );
    const { status, body: shown } = await get(`deliveries/${id}`);
    expect(status).toBe(200);
    expect(shown).toMatchObject({
      ...{ delivery_id: id, state: "failed", last_status: 404, body_state: "shown", body },
      latest_attempts: [
        {
          ...{ attempt: 2, started_at: iso(1), ended_at: iso(2), outcome: "rejected", status: 404 },
          ...{ detail: null, response_excerpt: "no \ufffd[31mway\ufffd" },
        },
        { attempt: 1, outcome: "failed", status: null, detail: "ECONNREFUSED", response_excerpt: null },
      ],
    });
  });

  test("returns the latest 20 attempts", async () => {
    const { get, delivery } = await sending(api);
    const id = await delivery({ attempts: 21 });
    await noteAttempts(api, id, ...Array.from({ length: 21 }, () => ({ outcome: "failed" })));
    const { body } = await get(`deliveries/${id}`);
    const numbers = (body.latest_attempts as { attempt: number }[]).map(({ attempt }) => attempt);
    expect([numbers.length, numbers[0], numbers.at(-1), body.attempts]).toEqual([20, 21, 2, 21]);
  });

  test.each([
    ["an undelivered event with secrets", "failed" as const, "connection.created", true],
    ["a delivered event with secrets", "delivered" as const, "connection.created", false],
    [
      "an event of a kind without secrets whose body is stored encrypted",
      "failed" as const,
      "delegation.denied",
      true,
    ],
    ["an event of an unknown kind", "delivered" as const, "connection.renewed", false],
  ])("hides the body and responses of %s", async (_, state, kind, kept) => {
    const { get, delivery } = await sending(api);
    const secret = "dpz_secret_of_somebody";
    const id = await delivery({ state: "pending", attempts: 1, event_type: kind });
    const boxed = api.secretBox.box(JSON.stringify({ api_key: secret }), deliveryBodyContext(id));
    const settled = { state, next_attempt_at: null, settled_at: api.clock.now() };
    await api
      .db("webhook_deliveries")
      .where({ delivery_id: id })
      .update({ ...settled, body: null, body_sealed: kept ? boxed : null });
    const echo = Buffer.from(`you sent ${secret}`);
    await noteAttempts(api, id, { outcome: "rejected", status: 400, response_excerpt: echo });
    const { body, text } = await get(`deliveries/${id}`);
    expect(body).toMatchObject({
      ...{ body_state: "secret", body: null },
      latest_attempts: [{ status: 400, response_excerpt: null }],
    });
    const list = await get("deliveries");
    for (const each of [text, list.text, api.lines.join("")]) {
      expect(each).not.toContain(secret);
      expect(each).not.toContain(boxed.toString("base64"));
    }
  });

  test("reports that a body was erased", async () => {
    const { get, delivery } = await sending(api);
    const id = await delivery({ state: "cancelled" });
    expect((await get(`deliveries/${id}`)).body).toMatchObject({ body_state: "erased", body: null });
  });

  test("returns not_found to the owner of a different connection, and for a delivery of a different connection", async () => {
    const { get, post, delivery } = await sending(api);
    const id = await delivery();
    const other = await sending(api);
    const foreign = await other.delivery();
    for (const path of ["deliveries", `deliveries/${id}`]) {
      const answer = await get(path, other.person);
      expect([answer.status, errorCode(answer)]).toEqual([404, "not_found"]);
    }
    for (const nobodys of [foreign, ...NOBODYS]) {
      expect(errorCode(await get(`deliveries/${nobodys}`))).toBe("not_found");
      expect(errorCode(await post(`deliveries/${nobodys}/resend`))).toBe("not_found");
    }
    expect(errorCode(await post(`deliveries/${id}/resend`, undefined, other.person))).toBe("not_found");
    const rows = await api.db("webhook_deliveries").whereIn("delivery_id", [id, foreign]).pluck("state");
    expect(rows).toEqual(["failed", "failed"]);
  });
});

describe("POST …/resend", () => {
  test.each(["failed", "rejected", "blocked", "delivered"] as const)(
    "makes a %s delivery due now",
    async (state) => {
      const { post, delivery } = await sending(api);
      const id = await delivery({ state, attempts: 3 });
      const answer = await post(`deliveries/${id}/resend`);
      expect([answer.status, answer.body]).toMatchObject([
        200,
        { delivery_id: id, state: "pending", attempts: 3, next_attempt_at: iso(0), finished_at: null },
      ]);
    },
  );

  test("makes a delivery due that waits for a retry, once", async () => {
    const { post, delivery } = await sending(api);
    const id = await delivery({
      state: "pending",
      attempts: 2,
      next_attempt_at: addSeconds(api.clock.now(), 60),
    });
    const answer = await post(`deliveries/${id}/resend`);
    expect([answer.status, answer.body]).toMatchObject([
      200,
      { delivery_id: id, state: "pending", attempts: 2, next_attempt_at: iso(0) },
    ]);
    expect(errorCode(await post(`deliveries/${id}/resend`))).toBe("delivery_under_way");
  });

  test.each([
    ["pending", "delivery_under_way"],
    ["sending", "delivery_under_way"],
    ["cancelled", "delivery_body_erased"],
  ] as const)("rejects a %s delivery and changes nothing", async (state, code) => {
    const { post, delivery } = await sending(api);
    const id = await delivery({ state });
    const rowOf = () => api.db("webhook_deliveries").where({ delivery_id: id }).first();
    const before = await rowOf();
    const answer = await post(`deliveries/${id}/resend`);
    expect([answer.status, errorCode(answer)]).toEqual([409, code]);
    expect(await rowOf()).toEqual(before);
  });

  test.each(["held", "failed"] as const)(
    "rejects a %s delivery while the callback is paused",
    async (state) => {
      const { post, delivery } = await sending(api);
      const id = await delivery({ state });
      await post("callback/pause");
      expect(errorCode(await post(`deliveries/${id}/resend`))).toBe("callback_inactive");
    },
  );

  test("rejects a delivery after 50 attempts, but not after 49", async () => {
    const { post, delivery } = await sending(api);
    const codeOf = async (attempts: number) =>
      errorCode(await post(`deliveries/${await delivery({ attempts })}/resend`));
    expect([await codeOf(49), await codeOf(50)]).toEqual([undefined, "delivery_limit"]);
  });

  test("changes nothing when repeated, and returns its first answer again for the same idempotency key", async () => {
    const { person, connectionId, post, delivery } = await sending(api);
    const id = await delivery({ attempts: 1 });
    const path = `/v1/service/connections/${connectionId}/deliveries/${id}/resend`;
    const keyed = () => person.client.post(path, undefined, { headers: { "idempotency-key": "k" } });
    const [first, again] = [await keyed(), await keyed()];
    expect([again.status, again.body]).toEqual([200, first.body]);
    expect(errorCode(await post(`deliveries/${id}/resend`))).toBe("delivery_under_way");
    const row = await api.db("webhook_deliveries").where({ delivery_id: id }).first();
    expect(row).toMatchObject({ state: "pending", attempts: 1, schedule_start: 1 });
  });

  test("accepts one of many concurrent calls", async () => {
    const { post, delivery } = await sending(api);
    const id = await delivery();
    const answers = await Promise.all(Array.from({ length: 8 }, () => post(`deliveries/${id}/resend`)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(7).fill(409)]);
  });

  test("allows 60 calls a minute for each connection", async () => {
    const { post, delivery } = await sending(api);
    const id = await delivery({ state: "pending" });
    for (let n = 0; n < 60; n++) {
      expect(errorCode(await post(`deliveries/${id}/resend`))).toBe("delivery_under_way");
    }
    const late = await post(`deliveries/${id}/resend`);
    expect([late.status, errorCode(late)]).toEqual([429, "rate_limited"]);
    expect(Number(late.headers.get("retry-after"))).toBeGreaterThan(0);
    const other = await sending(api);
    expect((await other.post(`deliveries/${await other.delivery()}/resend`)).status).toBe(200);
  });

  test("handles each delivery completely or not at all if the connection is removed concurrently", async () => {
    const { post, delivery, person, connectionId } = await sending(api);
    const ids = await Promise.all(Array.from({ length: 4 }, () => delivery()));
    const removal = person.client.call("DELETE", `/v1/service/connections/${connectionId}`);
    const answers = await Promise.all(ids.map((id) => post(`deliveries/${id}/resend`)));
    expect((await removal).status).toBe(200);
    for (const { status } of answers) expect([200, 404]).toContain(status);
    const failed = await api
      .db("webhook_deliveries")
      .where({ endpoint_id: endpointIdOf(connectionId), state: "failed" });
    expect(failed.length).toBe(answers.filter(({ status }) => status === 404).length);
  });
});
