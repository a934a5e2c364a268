import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { addSeconds } from "../../../src/clock.ts";
import { runningApi } from "../../support/api.ts";
import { approve, delegated, selfRequest } from "../../support/platform_world.ts";

const api = runningApi();

type Decided = { agoSeconds: number; scope: string; decision: "allow" | "deny" | null; elsewhere?: boolean };

async function decide(given: Awaited<ReturnType<typeof delegated>>, certId: string, decided: Decided[]) {
  const rows = decided.map(({ agoSeconds, scope, decision, elsewhere }) => ({
    account_id: given.person.accountId,
    occurred_at: addSeconds(api.clock.now(), -agoSeconds),
    event_id: randomUUID(),
    event_type: decision === null ? ("proof.presented" as const) : ("proof.verified" as const),
    connection_id: given.platform.connectionId,
    agent_id: given.agentId,
    cert_id: certId,
    decision,
    decision_reason: decision && "authorized",
    required_scope: scope,
    verifier_account_id: elsewhere ? randomUUID() : null,
  }));
  await api.db.batchInsert("audit_events", rows, 1_000);
}

describe("GET /v1/service/delegations/{cert_id}/use", () => {
  test("counts a certificate's decisions in the last seven days by scope, including decisions at other accounts", async () => {
    const given = await delegated(api, ["data:read", "payments:send"]);
    const { person, platform, certId, agentId } = given;
    const request = await selfRequest(person, platform.connectionId, { agent_id: agentId });
    const other = String((await approve(person, request, ["data:share"])).body.cert_id);
    const week = 7 * 24 * 3_600;
    await decide(given, certId, [
      { agoSeconds: 180, scope: "payments:send", decision: "allow" },
      { agoSeconds: 200, scope: "data:read", decision: "allow" },
      { agoSeconds: 201, scope: "data:read", decision: "allow", elsewhere: true },
      { agoSeconds: 10, scope: "data:write", decision: "deny" },
      { agoSeconds: 5, scope: "data:read", decision: null },
      { agoSeconds: week, scope: "data:read", decision: "allow" },
      { agoSeconds: week + 1, scope: "data:export", decision: "allow" },
    ]);
    await decide(given, other, [{ agoSeconds: 1, scope: "data:share", decision: "allow" }]);
    const use = async () => (await person.client.get(`/v1/service/delegations/${certId}/use`)).body;
    expect(await use()).toEqual({
      cert_id: certId,
      days: 7,
      allowed: 4,
      denied: 1,
      more: false,
      last_allowed_at: addSeconds(api.clock.now(), -180).toISOString(),
      by_scope: [
        { scope: "data:read", allowed: 3 },
        { scope: "payments:send", allowed: 1 },
      ],
      other_active: 1,
    });
    await person.client.post(`/v1/service/delegations/${other}/revoke`);
    expect(await use()).toMatchObject({ other_active: 0 });
  });

  test("returns zeros before the first use, and stops counting at 10,000", async () => {
    const given = await delegated(api);
    const path = `/v1/service/delegations/${given.certId}/use`;
    const nothing = { allowed: 0, denied: 0, more: false, last_allowed_at: null, by_scope: [] };
    expect((await given.person.client.get(path)).body).toMatchObject(nothing);
    const allow = { scope: "data:read", decision: "allow" } as const;
    await decide(
      given,
      given.certId,
      Array.from({ length: 10_002 }, (_, at) => ({ agoSeconds: at, ...allow })),
    );
    expect((await given.person.client.get(path)).body).toMatchObject({ allowed: 10_001, more: true });
  });
});
