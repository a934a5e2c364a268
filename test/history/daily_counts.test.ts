import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { runningApi } from "../support/api.ts";

const api = runningApi();

type Day = { day: string; allow: number; deny: number; indeterminate: number; charged: number };

async function counted(rows: { at: string; decision: string | null; elsewhere?: true }[], query = "") {
  const { client, accountId } = await api.person();
  const events = rows.map(({ at, decision, elsewhere }) => ({
    account_id: accountId,
    occurred_at: new Date(at),
    event_id: randomUUID(),
    event_type: decision === null ? ("proof.presented" as const) : ("proof.verified" as const),
    connection_id: randomUUID(),
    agent_id: "a".repeat(32),
    decision: decision as "allow" | null,
    verifier_account_id: elsewhere === true ? randomUUID() : null,
  }));
  if (events.length > 0) await api.db("audit_events").insert(events);
  const answer = await client.get(`/v1/service/audit/personal/days${query}`);
  return { answer, days: (answer.body.days ?? []) as Day[] };
}

describe("GET …/audit/personal/days", () => {
  test("counts decisions by result, and the decisions that the account paid for", async () => {
    const day = api.clock.now().toISOString().slice(0, 10);
    const { days } = await counted([
      { at: `${day}T00:00:00Z`, decision: "allow" },
      { at: `${day}T00:00:00Z`, decision: "allow", elsewhere: true },
      { at: `${day}T00:00:00Z`, decision: "deny" },
      { at: `${day}T00:00:00Z`, decision: "indeterminate" },
      { at: `${day}T00:00:00Z`, decision: null },
    ]);
    expect(days.at(-1)).toEqual({ day, allow: 2, deny: 1, indeterminate: 1, charged: 2 });
    expect(days).toHaveLength(14);
  });

  test("uses days in UTC, and includes days without decisions", async () => {
    const day = api.clock.now().toISOString().slice(0, 10);
    const before = new Date(Date.parse(`${day}T00:00:00Z`) - 1).toISOString();
    const { days } = await counted(
      [
        { at: before, decision: "allow" },
        { at: `${day}T00:00:00Z`, decision: "deny" },
      ],
      "?days=3",
    );
    expect(days.map(({ allow, deny }) => [allow, deny])).toEqual([
      [0, 0],
      [1, 0],
      [0, 1],
    ]);
    expect(days.map(({ day: each }) => each)).toEqual(days.map(({ day: each }) => each).toSorted());
    expect((await counted([{ at: before, decision: "allow" }], "?days=1")).days).toEqual([
      { day, allow: 0, deny: 0, indeterminate: 0, charged: 0 },
    ]);
  });

  test.each(["?days=0", "?days=91", "?days=1.5", "?days=", "?days=x"])("rejects %s", async (query) => {
    expect((await counted([], `${query}`)).answer.status).toBe(400);
  });

  test("returns up to 90 days of the account's own decisions", async () => {
    await counted([{ at: api.clock.now().toISOString(), decision: "allow" }]);
    const { days } = await counted([], "?days=90");
    expect(days).toHaveLength(90);
    expect(days.every(({ allow }) => allow === 0)).toBe(true);
    expect((await api.client().get("/v1/service/audit/personal/days")).status).toBe(401);
  });

  test("counts a past day only once, and today on every call", async () => {
    const { client, accountId } = await api.person();
    const today = Date.parse(`${api.clock.now().toISOString().slice(0, 10)}T00:00:00Z`);
    const decide = (at: number) =>
      api.db("audit_events").insert({
        account_id: accountId,
        occurred_at: new Date(at),
        event_id: randomUUID(),
        event_type: "proof.verified",
        connection_id: randomUUID(),
        agent_id: "a".repeat(32),
        decision: "allow",
      });
    const allowed = async (days: number) => {
      const { body } = await client.get(`/v1/service/audit/personal/days?days=${days}`);
      return (body.days as Day[]).map(({ allow }) => allow);
    };
    const DAY = 86_400_000;
    await decide(today);
    await decide(today - 2 * DAY);
    expect(await allowed(3)).toEqual([1, 0, 1]);
    await decide(today);
    // The real history never adds a decision to a past day. If the day were counted again, its count would
    // change.
    await decide(today - 2 * DAY);
    expect(await allowed(3)).toEqual([1, 0, 2]);
    expect((await allowed(4)).slice(-3)).toEqual([2, 0, 2]);
    const answers = await Promise.all([allowed(90), allowed(1), allowed(14)]);
    expect(answers.map((days) => [days.length, days.at(-1)])).toEqual([
      [90, 2],
      [1, 2],
      [14, 2],
    ]);
  });
});
