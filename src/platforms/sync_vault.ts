import { setTimeout as sleep } from "node:timers/promises";
import type { Database } from "../db/database.ts";
import type { AgentRow } from "../db/tables.ts";
import type { Logger } from "../log.ts";
import { type VaultClient, VaultRefused, VaultUnavailable } from "../vault/client.ts";

const EVERY_MS = 30_000;

/** What telling the vault works with. */
export type VaultSyncDeps = {
  db: Database;
  vault: Pick<VaultClient, "disableKey" | "shrinkCeiling">;
  log: Logger;
};

const AT_ONCE = 100;

type DueAgent = Pick<
  AgentRow,
  "agent_id" | "account_id" | "vault_key_id" | "disabled_at" | "vault_due_at"
> & { ceiling: string[] };

/**
 * Tells the vault which agents ended and whose ceiling shrank, of one connection or, without one, of all. The
 * database has it since the change was committed; this only brings the vault's second line of defence in
 * step, so it can be repeated at any time, runs again after a crash, and never fails: what the vault did not
 * take stays due. Gives how many agents were synced.
 */
export async function syncVault(deps: VaultSyncDeps, connectionId?: string): Promise<number> {
  let synced = 0;
  try {
    for (const agent of await dueAgents(deps.db, connectionId)) {
      const told = await tell(deps, agent);
      if (told === "unreachable") break;
      if (told) synced += await noteSynced(deps.db, agent);
    }
  } catch (error) {
    deps.log.warn({ fault: messageOf(error) }, "agents whose changes the vault must know could not be read");
  }
  return synced;
}

/**
 * Whether the vault needs to hear no more of an agent. A refusal is its last word on a key (gone, disabled
 * already, narrower already): asking again changes nothing.
 */
async function tell({ vault, log }: VaultSyncDeps, agent: DueAgent): Promise<boolean | "unreachable"> {
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
      "the vault did not take an agent's change",
    );
    return error instanceof VaultUnavailable && error.code === "unreachable" ? "unreachable" : final;
  }
}

/** A change made meanwhile has a later time and stays due. */
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
    .join("platforms as p", "p.platform_id", "c.platform_id")
    .whereNotNull("a.vault_due_at")
    .orderBy("a.vault_due_at")
    .limit(AT_ONCE)
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
 * Tells the vault, now and every 30 seconds, what it could not be sent when it happened: after a crash, or
 * while it was away. Several processes may do so concurrently.
 */
export function keepVaultSynced(deps: VaultSyncDeps, everyMs: number = EVERY_MS): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const running = (async () => {
    while (!stopping.signal.aborted) {
      await syncVault(deps);
      await sleep(everyMs, undefined, { signal: stopping.signal }).catch(() => {});
    }
  })();
  return {
    async stop() {
      stopping.abort();
      await running;
    },
  };
}
