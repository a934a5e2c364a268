import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import type { AuditEventRow } from "../../src/db/tables.ts";
import { runningApi } from "../support/api.ts";
import { errorCode } from "../support/platform_world.ts";

const api = runningApi();

type Event = {
  event_id: string;
  event_type: string;
  details: Record<string, unknown>;
  [field: string]: unknown;
};

const start = new Date("2026-01-01T00:00:00.000Z");
const agentId = "a".repeat(32);

function event(accountId: string, fields: Partial<AuditEventRow> = {}): AuditEventRow {
  return {
    account_id: accountId,
    occurred_at: start,
    event_id: randomUUID(),
    event_type: "proof.verified",
    connection_id: randomUUID(),
    agent_id: agentId,
    human_id: "b".repeat(32),
    cert_id: `cert-${randomUUID()}`,
    decision: "allow",
    decision_reason: "authorized",
    required_scope: "data:read",
    receipt: "{}",
    receipt_hash: Buffer.alloc(32),
    verifier_account_id: null,
    verifier_platform_name: null,
    verifier_organization_name: null,
    explanation: null,
    ...fields,
  };
}

const presented = {
  event_type: "proof.presented",
  decision: null,
  decision_reason: null,
  required_scope: null,
  receipt: null,
  receipt_hash: null,
} as const;

async function history(events: (accountId: string) => AuditEventRow[]) {
  const { client, accountId } = await api.person();
  const rows = events(accountId);
  await api.db("audit_events").insert(rows);
  const read = async (query = "") => {
    const answer = await client.get(`/v1/service/audit/personal${query}`);
    return {
      ...answer,
      events: (answer.body.events ?? []) as Event[],
      ids: ((answer.body.events ?? []) as Event[]).map(({ event_id }) => event_id),
    };
  };
  return { client, accountId, rows, read };
}

describe("GET …/audit/personal", () => {
  test("returns a decision with its reason, scope and receipt", async () => {
    const { rows, read } = await history((id) => [event(id)]);
    const { status, body } = await read();
    expect(status).toBe(200);
    expect(body).toEqual({
      events: [
        {
          event_id: rows[0]!.event_id,
          event_type: "proof.verified",
          occurred_at: "2026-01-01T00:00:00.000Z",
          agent_id: agentId,
          cert_id: rows[0]!.cert_id,
          connection_id: rows[0]!.connection_id,
          details: {
            decision: "allow",
            decision_reason: "authorized",
            required_scope: "data:read",
            receipt_id: rows[0]!.event_id,
          },
        },
      ],
      next_cursor: null,
    });
  });

  test("returns no decision for a proof that was only presented", async () => {
    const { read } = await history((id) => [event(id, presented)]);
    expect((await read()).events).toMatchObject([{ event_type: "proof.presented", details: {} }]);
    expect((await read()).events[0]!.details).toEqual({});
  });

  test("returns 25 events a page, newest first, each exactly once", async () => {
    const { rows, read } = await history((id) =>
      Array.from({ length: 60 }, (_, n) => event(id, { occurred_at: addSeconds(start, Math.floor(n / 7)) })),
    );
    const order = rows
      .toSorted((a, b) => +b.occurred_at - +a.occurred_at || (a.event_id < b.event_id ? 1 : -1))
      .map(({ event_id }) => event_id);
    const first = await read();
    const second = await read(`?cursor=${String(first.body.next_cursor)}`);
    const third = await read(`?cursor=${String(second.body.next_cursor)}`);
    expect([first, second, third].map(({ ids }) => ids.length)).toEqual([25, 25, 10]);
    expect([first, second, third].flatMap(({ ids }) => ids)).toEqual(order);
    expect(third.body.next_cursor).toBeNull();
  });

  test("neither loses nor repeats events of the same millisecond, and excludes events added after the first page", async () => {
    const { accountId, rows, read } = await history((id) => Array.from({ length: 6 }, () => event(id)));
    for (const [n, { event_id }] of rows.entries()) {
      const micros = `2026-01-01T00:00:00.00000${n}Z`;
      await api.db.raw("update audit_events set occurred_at = ? where event_id = ?", [micros, event_id]);
    }
    const first = await read("?limit=2");
    await api.db("audit_events").insert(event(accountId, { occurred_at: addSeconds(start, 1) }));
    const second = await read(`?limit=2&cursor=${String(first.body.next_cursor)}`);
    const third = await read(`?limit=2&cursor=${String(second.body.next_cursor)}`);
    const order = rows.map(({ event_id }) => event_id).reverse();
    expect([first, second, third].flatMap(({ ids }) => ids)).toEqual(order);
  });

  test("returns no cursor if the last page is exactly full", async () => {
    const { read } = await history((id) => Array.from({ length: 4 }, () => event(id)));
    const first = await read("?limit=2");
    const second = await read(`?limit=2&cursor=${String(first.body.next_cursor)}`);
    expect([second.ids.length, second.body.next_cursor]).toEqual([2, null]);
  });

  test("accepts limits from 1 to 100", async () => {
    const { read } = await history((id) => Array.from({ length: 101 }, () => event(id)));
    expect((await read("?limit=1")).ids).toHaveLength(1);
    expect((await read("?limit=25")).ids).toHaveLength(25);
    expect((await read("?limit=100")).ids).toHaveLength(100);
    for (const limit of ["0", "101", "-1", "1.5", "x", ""]) {
      const answer = await read(`?limit=${limit}`);
      expect([answer.status, errorCode(answer)]).toEqual([400, "invalid_request"]);
    }
  });

  test("filters by kind, agent, decision and time, including since and excluding until", async () => {
    const other = "c".repeat(32);
    const { rows, read } = await history((id) => [
      event(id),
      event(id, {
        occurred_at: addSeconds(start, 1),
        event_type: "proof.rejected",
        decision: "deny",
        decision_reason: "not_delegated",
      }),
      event(id, { ...presented, occurred_at: addSeconds(start, 2), agent_id: other }),
      event(id, {
        occurred_at: addSeconds(start, 3),
        event_type: "proof.rejected",
        decision: "indeterminate",
        decision_reason: "root_state_unavailable",
        receipt: null,
        receipt_hash: null,
      }),
    ]);
    const at = (n: number) => rows[n]!.event_id;
    expect((await read("?event_type=proof.rejected")).ids).toEqual([at(3), at(1)]);
    expect((await read("?event_type=proof.presented")).ids).toEqual([at(2)]);
    expect((await read(`?agent_id=${other}`)).ids).toEqual([at(2)]);
    expect((await read("?agent_id=nobody")).ids).toEqual([]);
    for (const [decision, n] of [
      ["allow", 0],
      ["deny", 1],
      ["indeterminate", 3],
    ] as const) {
      expect((await read(`?decision=${decision}`)).ids).toEqual([at(n)]);
    }
    expect((await read("?since=2026-01-01T00:00:01Z&until=2026-01-01T00:00:03Z")).ids).toEqual([
      at(2),
      at(1),
    ]);
    expect((await read("?since=2026-01-01T02:00:02%2B02:00")).ids).toEqual([at(3), at(2)]);
    expect((await read("?since=0000-01-01T00:00:00Z&until=9999-12-31T23:59:59Z")).ids).toHaveLength(4);
    expect((await read("?decision=deny&event_type=proof.verified")).ids).toEqual([]);
    const [indeterminate] = (await read("?decision=indeterminate")).events;
    expect(indeterminate!.details).not.toHaveProperty("receipt_id");
  });

  test.each([
    "event_type=proof.lost",
    "decision=maybe",
    "since=yesterday",
    "until=2026-13-01T00:00:00Z",
    "cursor=x",
    "agent_id=",
    "limit=1&limit=2",
  ])("rejects %s", async (query) => {
    const { read } = await history((id) => [event(id)]);
    const answer = await read(`?${query}`);
    expect([answer.status, errorCode(answer)]).toEqual([400, "invalid_request"]);
  });

  test("returns only the account's own events, and requires a session", async () => {
    await history((id) => [event(id)]);
    const { client } = await api.person();
    expect((await client.get("/v1/service/audit/personal")).body).toEqual({ events: [], next_cursor: null });
    expect(errorCode(await api.client().get("/v1/service/audit/personal"))).toBe("auth_required");
  });
});
