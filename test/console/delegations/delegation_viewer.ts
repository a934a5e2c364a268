import { randomUUID } from "node:crypto";
import { addSeconds } from "../../../src/clock.ts";
import type { TestApi } from "../../support/api.ts";
import { createAgent, registerPlatform, selfRequest } from "../../support/platform_world.ts";
import { browserOf } from "../support/console.ts";
import type { Seen } from "../support/visits.ts";

/** Text from untrusted parties on the pages, and when the delegation ends. */
export type Told = {
  agent?: string;
  platform?: string;
  scope?: string;
  reason?: string;
  seconds?: number;
  isRevoked?: boolean;
};

/**
 * Creates an owner of an organization with an agent, a delegation with limits, and decisions about it. `ids`
 * contains `cert`, `agent`, `platform`, `connection`, `account` and `key` (the API key).
 */
export async function delegationViewer(api: TestApi, told: Told = {}): Promise<Seen> {
  const { agent = "Clerk", platform: name = "Shop", scope = "custom:orders:refund", seconds } = told;
  const person = await api.person({ organization_name: "Bank" });
  const given = { name, default_allowed_scopes: ["data:read", "payments:send", scope] };
  const platform = await registerPlatform(person, given, "/v1/service/platforms");
  const agentId = await createAgent(api.client(), platform, { name: agent });
  const { connectionId } = platform;
  const requestId = await selfRequest(person, connectionId, {
    agent_id: agentId,
    requested_scope: ["data:read", "payments:send", scope],
    constraints: [{ type: "max_amount", max_amount: 100, currency: "EUR" }],
  });
  const path = `/v1/service/delegations/requests/${requestId}/approve`;
  const approved = await person.client.post(path, {
    approved_scope: ["data:read", scope],
    ...(seconds && { expires_in: seconds }),
  });
  if (approved.status !== 200) throw new Error(approved.text);
  const certId = String(approved.body.cert_id);
  await api.db("audit_events").insert(
    Array.from({ length: 12 }, (_, place) => ({
      account_id: person.accountId,
      occurred_at: addSeconds(api.clock.now(), -180 - place * 600),
      event_id: randomUUID(),
      event_type: place % 4 === 3 ? ("proof.rejected" as const) : ("proof.verified" as const),
      connection_id: connectionId,
      agent_id: agentId,
      human_id: person.humanId,
      cert_id: certId,
      decision: place % 4 === 3 ? ("deny" as const) : ("allow" as const),
      decision_reason: place % 4 === 3 ? "constraint_denied" : "authorized",
      required_scope: place % 2 === 0 ? scope : "data:read",
    })),
  );
  if (told.isRevoked) {
    const body = { reason: told.reason ?? "no longer needed" };
    await person.client.post(`/v1/service/delegations/${certId}/revoke`, body);
  }
  const ids = {
    cert: certId,
    agent: agentId,
    platform: platform.platformId,
    connection: connectionId,
    account: person.accountId,
    key: platform.apiKey,
  };
  return { ...browserOf(api, person.client), ids };
}
