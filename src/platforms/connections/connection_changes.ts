import { requireRole } from "../../accounts/member_role.ts";
import type { Database, Transaction } from "../../db/database.ts";
import type { ConnectionRow } from "../../db/key_tables.ts";
import { ApiError } from "../../errors.ts";
import { isUuid } from "../../ids.ts";
import type { ApiKeyFinder } from "../api_keys/api_key_finder.ts";
import { prefixesOf } from "../api_keys/narrow_keys.ts";
import type { RetireDeps } from "../api_keys/rotate_key.ts";
import {
  type ConnectionPlace,
  findConnection,
  isRemoving,
  lockConnection,
  lockCustomers,
  selectPlatforms,
} from "../platform_record.ts";
import { syncVault, type VaultSyncDeps } from "../sync_vault.ts";
import type { Party } from "./connection_acts.ts";
import { endApprovals } from "./customer_connections.ts";
import { endTogether } from "./end_connections.ts";

/** A change of a connection. Omitted members stay unchanged. */
type ConnectionChange = {
  verifier_id?: string | undefined;
  registry_answers?: boolean | undefined;
  outside_verifiers?: string[] | undefined;
};

type ConnectionSettings = Pick<
  ConnectionRow,
  "connection_id" | "verifier_id" | "registry_answers" | "outside_verifiers"
>;

/**
 * Changes the verifier name that operations are bound to, whether AuthZEN requests without a proof are
 * answered, or whose challenges from outside the connection's agents answer. From the answer on, this process
 * refuses proofs that are bound to the former name. Every other process does so when it is notified of the
 * commit. `by` is the member who makes the change. Throws `not_found`, `invalid_request` for the id of
 * another connection as a name, and `forbidden` if this member may no longer list outside verifiers.
 */
export async function changeConnection(
  { db, apiKeys }: { db: Database; apiKeys: Pick<ApiKeyFinder, "forget"> },
  { accountId, connectionId, by }: ConnectionPlace & { by: string },
  change: ConnectionChange,
): Promise<ConnectionSettings> {
  const { connection_id } = await findConnection(db, accountId, connectionId);
  const { verifier_id: name = connection_id } = change;
  if (isUuid(name) && name !== connection_id) {
    throw new ApiError("invalid_request", "verifier_id: an id can only be the name of its own connection");
  }
  const { settings, keys } = await db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    const record = await findConnection(tx, accountId, connection_id);
    const next = {
      verifier_id: change.verifier_id ?? record.verifier_id,
      registry_answers: change.registry_answers ?? record.registry_answers,
      outside_verifiers: change.outside_verifiers ?? record.outside_verifiers,
    };
    const maker = change.outside_verifiers && {
      outside_verifiers_by: next.outside_verifiers.length > 0 ? by : null,
    };
    if (maker) await requireRole(tx, accountId, by, ["owner", "developer"]);
    await tx("connections")
      .where({ connection_id })
      .update({ ...next, ...maker });
    return { settings: { connection_id, ...next }, keys: await prefixesOf(tx, { connection_id }) };
  });
  apiKeys.forget(keys);
  return settings;
}

/**
 * Removes an own connection and its platform permanently, with all connections of customers, as
 * {@link endTogether} says. The removal is valid even before the vault disables the agents' keys. Returns the
 * time of the removal, or `null` while the worker still ends connections of customers. A repeated call
 * returns the same time. Throws `not_found`.
 */
export async function removeConnection(
  deps: VaultSyncDeps & RetireDeps,
  { accountId, connectionId, check }: ConnectionPlace,
): Promise<Date | null> {
  if (!isUuid(connectionId)) throw new ApiError("not_found");
  const find = async (tx: Database | Transaction) => {
    const [record] = await selectPlatforms(tx)
      .where({ "c.connection_id": connectionId, "c.account_id": accountId })
      .limit(1);
    if (record === undefined) throw new ApiError("not_found");
    return record;
  };
  const removedAt = await remove(deps, { connectionId, by: "publisher" }, async (tx) => {
    const record = await find(tx);
    if (record.removed_at !== null) return record.removed_at;
    await check?.(tx);
    return lockCustomers(tx, record.platform_id);
  });
  return isRemoving(await find(deps.db)) ? null : removedAt;
}

/** A party of a customer connection: the publisher's account with its platform, or the customer's account. */
export type ConnectionParty = { account_id: string; product_id: string } | { customer_account_id: string };

/**
 * Ends a customer connection permanently for one of its parties, as {@link removeConnection} removes an own
 * one. The customer may connect again, which creates another connection. A repeated call returns the same
 * time. Throws `not_found`, also for an own connection.
 */
export async function endCustomerConnection(
  deps: VaultSyncDeps & RetireDeps,
  connectionId: string,
  party: ConnectionParty,
): Promise<Date> {
  if (![connectionId, ...Object.values(party)].every(isUuid)) throw new ApiError("not_found");
  const find = (db: Database | Transaction) =>
    db("connections")
      .where({ connection_id: connectionId, ...party })
      .first("removed_at", "product_id");
  // Before the lock, so that nobody can lock the connection of others.
  if ((await find(deps.db)) === undefined) throw new ApiError("not_found");
  const by = "customer_account_id" in party ? "customer" : "publisher";
  return remove(deps, { connectionId, by }, async (tx) => {
    const row = await find(tx);
    if (row === undefined) throw new ApiError("not_found");
    if (row.removed_at !== null) return row.removed_at;
    if ("customer_account_id" in party) {
      await endApprovals(tx, { accountId: party.customer_account_id, platformId: row.product_id });
    }
    return [];
  });
}

/**
 * Ends all connections of an account with other accounts' platforms, as {@link endCustomerConnection} ends
 * one. Returns how many there were. The worker's next step disables the agents' keys in the vault.
 */
export async function endCustomerConnections(deps: RetireDeps, customerAccountId: string): Promise<number> {
  const { ids, retired } = await deps.db.transaction(async (tx) => {
    const rows = await tx("connections")
      .where({ customer_account_id: customerAccountId, removed_at: null })
      .orderBy("connection_id")
      .forNoKeyUpdate()
      .select("connection_id");
    const ids = rows.map(({ connection_id }) => connection_id);
    await endApprovals(tx, { accountId: customerAccountId });
    const end = { by: "customer", now: deps.clock.now() } as const;
    return { ids, retired: await endTogether(tx, deps.secretBox, ids, end) };
  });
  deps.apiKeys.forget(retired);
  return ids.length;
}

/**
 * Ends the locked connection and the connections that `judge` returns, for one party. `judge` returns a time
 * instead if the connection has already ended.
 */
async function remove(
  deps: VaultSyncDeps & RetireDeps,
  { connectionId, by }: { connectionId: string; by: Party },
  judge: (tx: Transaction) => Promise<Date | string[]>,
): Promise<Date> {
  const { removedAt, retired } = await deps.db.transaction(async (tx) => {
    await lockConnection(tx, connectionId);
    const others = await judge(tx);
    if (others instanceof Date) return { removedAt: others, retired: [] };
    const now = deps.clock.now();
    return {
      removedAt: now,
      retired: await endTogether(tx, deps.secretBox, [connectionId, ...others], { by, now }),
    };
  });
  deps.apiKeys.forget(retired);
  await syncVault(deps, connectionId);
  return removedAt;
}
