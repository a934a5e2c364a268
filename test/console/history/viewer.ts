import { hash } from "node:crypto";
import { addSeconds } from "../../../src/clock.ts";
import type { AuditEventRow } from "../../../src/db/tables.ts";
import { newIdAt } from "../../../src/ids.ts";
import { canonicalJson } from "../../../src/protocol/encoding/canonical.ts";
import type { TestApi } from "../../support/api.ts";
import { delegated, registerPlatform } from "../../support/platform_world.ts";
import { browserOf } from "../support/console.ts";
import type { Seen } from "../support/visits.ts";

/** Text from untrusted parties in a history. */
export type Strange = {
  scope: string;
  reason: string;
  action: string;
  platform: string;
  organization: string;
};

export type HistoryViewer = Seen & {
  accountId: string;
  /** Writes an event that is `age` seconds old. Returns the event's id. */
  decide(age: number, fields?: Partial<AuditEventRow>): Promise<string>;
};

/**
 * Creates a person with an agent and a history: an allow, a denial, an undecided proof, and a decision for
 * another account.
 */
export async function historyViewer(api: TestApi, strange: Partial<Strange> = {}): Promise<HistoryViewer> {
  const person = await api.person();
  const platform = await registerPlatform(person);
  const { agentId, certId } = await delegated(api, ["data:read"], { person, platform });
  const { scope = "payments:send", reason = "not_delegated" } = strange;

  async function decide(age: number, fields: Partial<AuditEventRow> = {}): Promise<string> {
    const at = new Date(Math.floor(addSeconds(api.clock.now(), -age).getTime()));
    const id = newIdAt(at);
    const decided = {
      account_id: person.accountId,
      occurred_at: at,
      event_id: id,
      event_type: "proof.verified" as const,
      connection_id: platform.connectionId,
      agent_id: agentId,
      human_id: person.humanId,
      cert_id: certId,
      decision: "allow" as const,
      decision_reason: "authorized",
      required_scope: "data:read",
      ...fields,
    };
    const receipt = canonicalJson({
      ...(strange.action !== undefined && { action_profile: strange.action }),
      agent_id: agentId,
      connection_id: platform.connectionId,
      decision: decided.decision,
      decision_reason: decided.decision_reason,
      receipt_id: id,
      required_scope: decided.required_scope,
      verified_at: at.toISOString(),
      version: 1,
    });
    const isDecided = decided.decision !== null && decided.verifier_account_id === undefined;
    const kept = isDecided ? { receipt, receipt_hash: hash("sha256", receipt, "buffer") } : {};
    await api.db("audit_events").insert({ ...decided, ...kept });
    return id;
  }

  const allowed = await decide(400);
  const denied = await decide(300, {
    event_type: "proof.rejected",
    decision: "deny",
    decision_reason: reason,
    required_scope: scope,
  });
  const presented = await decide(200, {
    event_type: "proof.presented",
    decision: null,
    decision_reason: null,
    required_scope: null,
  });
  const elsewhere = await decide(100, {
    connection_id: "00000000-0000-4000-8000-000000000001",
    verifier_account_id: "00000000-0000-4000-8000-000000000002",
    verifier_platform_name: strange.platform ?? "Warehouse",
    verifier_organization_name: strange.organization ?? "Example Traders",
  });
  const ids = { allowed, denied, presented, elsewhere, agentId, certId, platformId: platform.platformId };
  return { ...browserOf(api, person.client), ids, accountId: person.accountId, decide };
}
