import type { Clock } from "../../clock.ts";
import type { Transaction } from "../../db/database.ts";
import type { AgentRow } from "../../db/tables.ts";
import { appendEvents } from "../../events/outbox.ts";
import type { SecretBox } from "../../secret_box.ts";
import { lockConnection } from "../connection_lock.ts";
import { revocationEvents, revokeCertificates, withdrawRequests } from "../end_authority.ts";
import { syncVault, type VaultSyncDeps } from "../sync_vault.ts";
import { findAgent } from "./agent_record.ts";

const REASON = "agent deleted";

/**
 * Ends an agent for ever: its certificates are revoked, each reported by one `delegation.revoked`, its
 * pending requests withdrawn. The vault disables its key afterwards; while it is away the deletion holds all
 * the same. Returns when it was disabled; a repeated call returns the same. Throws `not_found`.
 */
export async function deleteAgent(
  deps: VaultSyncDeps & { secretBox: SecretBox; clock: Clock },
  connectionId: string,
  agentId: string,
): Promise<Date> {
  const disabledAt = await deps.db.transaction(async (tx) => {
    await lockConnection(tx, connectionId);
    const agent = await findAgent(tx, connectionId, agentId);
    if (agent.disabled_at !== null) return agent.disabled_at;
    const now = deps.clock.now();
    await tx("agents").where({ agent_id: agentId }).update({ disabled_at: now, vault_due_at: now });
    await endDelegations(tx, deps.secretBox, agent, now);
    return now;
  });
  await syncVault(deps, connectionId);
  return disabledAt;
}

/** The certificates are last: decisions on them wait from there to the commit. */
async function endDelegations(
  tx: Transaction,
  secretBox: SecretBox,
  agent: AgentRow,
  now: Date,
): Promise<void> {
  const authority = { connection_id: agent.connection_id, agent_id: agent.agent_id };
  await withdrawRequests(tx, authority, REASON, now);
  await appendEvents(tx, secretBox, await revocationEvents(tx, authority, REASON, now), now);
  await revokeCertificates(tx, authority, REASON, now);
}
