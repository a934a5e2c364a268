import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import type { AuditEventRow } from "../../src/db/tables.ts";
import { newIdAt } from "../../src/ids.ts";
import { runningApi } from "../support/api.ts";
import { createAgent, errorCode, registerPlatform } from "../support/platform_world.ts";

const api = runningApi();
const start = new Date("2026-01-01T00:00:00.000Z");
const EXPORT = "/v1/service/audit/personal/export";

type Shown = { event_id: string; [field: string]: unknown };

async function account() {
  const person = await api.person();
  const platform = await registerPlatform(person);
  const agentId = await createAgent(api.client(), platform);
  const event = (place: number, fields: Partial<AuditEventRow> = {}) => {
    const at = addSeconds(start, place);
    return {
      account_id: person.accountId,
      occurred_at: at,
      event_id: newIdAt(at),
      event_type: "proof.verified" as const,
      connection_id: platform.connectionId,
      agent_id: agentId,
      human_id: person.humanId,
      cert_id: "cert-a",
      decision: "allow" as const,
      decision_reason: "authorized",
      required_scope: "data:read",
      receipt: "{}",
      receipt_hash: Buffer.alloc(32, 7),
      ...fields,
    };
  };
  const keep = (rows: ReturnType<typeof event>[]) => api.db("audit_events").insert(rows);
  const read = async (query = "", path = EXPORT) => {
    const answer = await person.client.get(`${path}${query}`);
    return { ...answer, events: (answer.body.events ?? []) as Shown[] };
  };
  return { person, platform, agentId, event, keep, read };
}

describe("GET …/audit/personal/export", () => {
  test("returns the names of the account's own agents and platforms only", async () => {
    const other = await account();
    const { person, platform, agentId, event, keep, read } = await account();
    await keep([event(1), event(0, { agent_id: other.agentId, connection_id: other.platform.connectionId })]);
    const { events } = await read();
    expect(events).toMatchObject([
      {
        agent_id: agentId,
        agent_name: expect.any(String),
        platform_id: platform.platformId,
        platform_name: expect.any(String),
        human_id: person.humanId,
        receipt_hash: `sha256:${"07".repeat(32)}`,
      },
      { agent_id: other.agentId, agent_name: null, platform_id: null, platform_name: null },
    ]);
  });

  test("returns up to 1,000 events a page, newest first, each once, even while events are added", async () => {
    const { event, keep, read } = await account();
    const rows = Array.from({ length: 1_203 }, (_, place) => event(Math.floor(place / 3)));
    await keep(rows);
    const first = await read();
    await keep([event(9_999)]);
    const second = await read(`?cursor=${String(first.body.next_cursor)}`);
    expect([first.events.length, second.events.length, second.body.next_cursor]).toEqual([1_000, 203, null]);
    const order = rows
      .toSorted((a, b) => +b.occurred_at - +a.occurred_at || (a.event_id < b.event_id ? 1 : -1))
      .map(({ event_id }) => event_id);
    expect([...first.events, ...second.events].map(({ event_id }) => event_id)).toEqual(order);
    expect((await read("?limit=1001")).status).toBe(400);
  });

  test.each([EXPORT, "/v1/service/audit/personal"])(
    "filters events by their properties on the path %s",
    async (path) => {
      const { platform, event, keep, read } = await account();
      const connection = randomUUID();
      const denied = { event_type: "proof.rejected", decision: "deny" } as const;
      const rows = [
        event(5),
        event(4, { cert_id: "cert-b" }),
        event(3, { ...denied, decision_reason: "not_delegated", required_scope: "payments:send" }),
        event(2, { ...denied, decision_reason: "delegation_revoked", connection_id: connection }),
        event(1, { event_type: "proof.presented", decision: null, decision_reason: null, cert_id: null }),
        event(0, { event_type: "proof.rejected", decision: "indeterminate" }),
      ];
      await keep(rows as ReturnType<typeof event>[]);
      const places = async (query: string) =>
        (await read(`?${query}`, path)).events.map((shown) =>
          rows.findIndex(({ event_id }) => event_id === shown.event_id),
        );
      expect(await places("cert_id=cert-b")).toEqual([1]);
      expect(await places("decision_reason=not_delegated")).toEqual([2]);
      expect(await places("required_scope=payments:send")).toEqual([2]);
      expect(await places(`connection_id=${connection}`)).toEqual([3]);
      expect(await places(`connection_id=${platform.connectionId}&decision=deny`)).toEqual([2]);
      expect(await places("connection_id=nobody")).toEqual([]);
      expect(await places("event_type=proof.rejected")).toEqual([2, 3, 5]);
      expect(await places("event_type=proof.presented")).toEqual([4]);
      expect(await places("event_type=proof.verified")).toEqual([0, 1]);
      expect(await places("decided=true")).toEqual([0, 1, 2, 3, 5]);
    },
  );
});

describe("GET …/audit/personal/{event_id}", () => {
  test("returns an event of the caller's own account", async () => {
    const { event, keep, read, person } = await account();
    const rows = [event(0), event(0), event(1)];
    await keep(rows);
    const [, wanted] = rows;
    const path = `/v1/service/audit/personal/${wanted?.event_id}`;
    const { body } = await person.client.get(path);
    expect(body).toEqual((await read()).events.find(({ event_id }) => event_id === wanted?.event_id));
    const stranger = await api.person();
    expect(errorCode(await stranger.client.get(path))).toBe("not_found");
    expect(errorCode(await api.client().get(path))).toBe("auth_required");
  });

  test.each(["nothing", randomUUID(), newIdAt(start), "%00"])("returns not_found for %s", async (id) => {
    const { person } = await account();
    expect((await person.client.get(`/v1/service/audit/personal/${id}`)).status).toBe(404);
  });
});
