import { startLoop } from "../concurrency/loop.ts";
import { type Database, platformOf } from "../db/database.ts";
import type { AgentRow } from "../db/tables.ts";
import type { Logger } from "../log.ts";
import { type VaultClient, VaultRefused, VaultUnavailable } from "../vault/client.ts";

const EVERY_MS = 30_000;

/** Dependencies of syncing the vault. */
export type VaultSyncDeps = {
  db: Database;
  vault: Pick<VaultClient, "disableKey" | "shrinkCeiling">;
  log: Logger;
};

const BATCH_SIZE = 100;

type DueAgent = Pick<
  AgentRow,
  "agent_id" | "account_id" | "vault_key_id" | "disabled_at" | "vault_due_at"
> & { ceiling: string[] };

/**
 * Sends deletions of agents and reduced ceilings to the vault, for one connection or for all. The database
 * enforces these changes from their commit on, and the vault is the second line of defense. Never fails:
 * changes that the vault did not accept stay due. Returns the number of synced agents.
 */
export async function syncVault(deps: VaultSyncDeps, connectionId?: string): Promise<number> {
  let synced = 0;
  try {
    for (const agent of await dueAgents(deps.db, connectionId)) {
      const result = await syncAgent(deps, agent);
      if (result === "unreachable") break;
      if (result) synced += await noteSynced(deps.db, agent);
    }
  } catch (error) {
    deps.log.warn({ fault: messageOf(error) }, "could not read which agents the vault must update");
  }
  return synced;
}

/** A change that the vault refuses counts as synced: the key is gone, disabled, or has a narrower ceiling. */
async function syncAgent({ vault, log }: VaultSyncDeps, agent: DueAgent): Promise<boolean | "unreachable"> {
  if (agent.vault_key_id === null) return true;
  const key = { tenant: agent.account_id, keyId: agent.vault_key_id };
  try {
    if (agent.disabled_at === null) {
      await vault.shrinkCeiling(key, agent.ceiling);
    } else {
      await vault.disableKey(key);
    }
    return true;
  } catch (error) {
    const final = error instanceof VaultRefused && error.code !== "rate_limited";
    log.warn(
      { agent_id: agent.agent_id, final, fault: messageOf(error) },
      "the vault did not accept an agent's change",
    );
    return error instanceof VaultUnavailable && error.code === "unreachable" ? "unreachable" : final;
  }
}

/** A change made during the sync has a later time, so it stays due. */
async function noteSynced(db: Database, agent: DueAgent): Promise<number> {
  return db("agents")
    .where({ agent_id: agent.agent_id, vault_due_at: agent.vault_due_at })
    .update({ vault_due_at: null });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : "not an error";
}

async function dueAgents(db: Database, connectionId?: string): Promise<DueAgent[]> {
  const query = db("agents as a")
    .join("connections as c", "c.connection_id", "a.connection_id")
    .join("platforms as p", "p.platform_id", db.raw(platformOf("c")))
    .whereNotNull("a.vault_due_at")
    .orderBy("a.vault_due_at")
    .limit(BATCH_SIZE)
    .select<DueAgent[]>(
      "a.agent_id",
      "a.account_id",
      "a.vault_key_id",
      "a.disabled_at",
      "a.vault_due_at",
      "p.default_allowed_scopes as ceiling",
    );
  return connectionId === undefined ? query : query.where({ "a.connection_id": connectionId });
}

/**
 * Syncs the vault now and every 30 seconds, and immediately after a whole batch, to send changes that failed,
 * that a crash prevented, or that a worker made. Several processes may sync concurrently.
 */
export function keepVaultSynced(deps: VaultSyncDeps, everyMs: number = EVERY_MS): { stop(): Promise<void> } {
  return startLoop({
    name: "vault_sync",
    log: deps.log,
    shortestPause: everyMs,
    longestPause: everyMs,
    step: async () => (await syncVault(deps)) === BATCH_SIZE,
  });
}
