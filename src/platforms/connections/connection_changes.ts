import { requireRole } from "../../accounts/member_role.ts";
import type { Database, Transaction } from "../../db/database.ts";
import type { ConnectionRow } from "../../db/key_tables.ts";
import { ApiError } from "../../errors.ts";
import { appendEvents, type LifecycleEvent } from "../../events/outbox.ts";
import { isUuid } from "../../ids.ts";
import type { SecretBox } from "../../secret_box.ts";
import type { ApiKeyFinder } from "../api_keys/api_key_finder.ts";
import { prefixesOf } from "../api_keys/narrow_keys.ts";
import { type RetireDeps, retireKeys } from "../api_keys/rotate_key.ts";
import { revocationEvents, revokeCertificates, withdrawRequests } from "../end_authority.ts";
import {
  type ConnectionPlace,
  findConnection,
  lockConnection,
  lockCustomers,
  selectPlatforms,
} from "../platform_record.ts";
import { syncVault, type VaultSyncDeps } from "../sync_vault.ts";

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

const REMOVAL_REASON = "connection removed";

/**
 * Removes an own connection and its platform permanently, with all connections of customers. Ends their API
 * keys, revokes their certificates, withdraws their pending requests and disables their agents. Emits one
 * `delegation.revoked` for each certificate, then one `connection.removed` for each connection. The removal
 * is valid even before the vault disables the agents' keys. Returns the time of the removal; a repeated call
 * returns the same time. Throws `not_found`.
 */
export async function removeConnection(
  deps: VaultSyncDeps & RetireDeps,
  { accountId, connectionId, check }: ConnectionPlace,
): Promise<Date> {
  if (!isUuid(connectionId)) throw new ApiError("not_found");
  return remove(deps, connectionId, async (tx) => {
    const [record] = await selectPlatforms(tx)
      .where({ "c.connection_id": connectionId, "c.account_id": accountId })
      .limit(1);
    if (record === undefined) throw new ApiError("not_found");
    if (record.removed_at !== null) return record.removed_at;
    await check?.(tx);
    return lockCustomers(tx, record.platform_id);
  });
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
      .first("removed_at");
  // Before the lock, so that nobody can lock the connection of others.
  if ((await find(deps.db)) === undefined) throw new ApiError("not_found");
  return remove(deps, connectionId, async (tx) => {
    const row = await find(tx);
    if (row === undefined) throw new ApiError("not_found");
    return row.removed_at ?? [];
  });
}

/**
 * Ends the locked connection and the connections that `judge` returns. `judge` returns a time instead if the
 * connection has already ended.
 */
async function remove(
  deps: VaultSyncDeps & RetireDeps,
  connectionId: string,
  judge: (tx: Transaction) => Promise<Date | string[]>,
): Promise<Date> {
  const { removedAt, retired } = await deps.db.transaction(async (tx) => {
    await lockConnection(tx, connectionId);
    const others = await judge(tx);
    if (others instanceof Date) return { removedAt: others, retired: [] };
    const now = deps.clock.now();
    return {
      removedAt: now,
      retired: await endConnections(tx, deps.secretBox, [connectionId, ...others], now),
    };
  });
  deps.apiKeys.forget(retired);
  await syncVault(deps, connectionId);
  return removedAt;
}

/**
 * Locks the live connections of an account: those of its platforms, with all their customers, and its own
 * with other accounts' platforms. Returns their ids. A platform's own connection precedes its customers'.
 */
export async function lockConnections(tx: Transaction, accountId: string): Promise<string[]> {
  const locked = await tx("connections")
    .where((of) => of.where({ account_id: accountId }).orWhere({ customer_account_id: accountId }))
    .whereNull("removed_at")
    .orderByRaw("platform_id is null, connection_id")
    .forNoKeyUpdate()
    .select("connection_id");
  return locked.map(({ connection_id }) => connection_id);
}

/**
 * Removes all connections of accounts, as {@link removeConnection} does with one: those of their platforms,
 * with all customers, and theirs with other accounts' platforms. The caller must hold the locks of the
 * connections, and must call it last in the transaction. Returns the prefixes of the ended keys, which the
 * caller passes to the finder after the commit.
 */
export async function removeConnections(
  tx: Transaction,
  secretBox: SecretBox,
  accountIds: readonly string[],
  now: Date,
): Promise<string[]> {
  const rows = await tx("connections")
    .where((of) =>
      of.whereIn("account_id", [...accountIds]).orWhereIn("customer_account_id", [...accountIds]),
    )
    .whereNull("removed_at")
    .orderBy("connection_id")
    .select("connection_id");
  return endConnections(
    tx,
    secretBox,
    rows.map(({ connection_id }) => connection_id),
    now,
  );
}

async function endConnections(
  tx: Transaction,
  secretBox: SecretBox,
  connectionIds: readonly string[],
  now: Date,
): Promise<string[]> {
  const retired: string[] = [];
  for (const connectionId of connectionIds) {
    retired.push(...(await endConnection(tx, secretBox, connectionId, now)));
  }
  await revokeCertificates(tx, connectionIds, REMOVAL_REASON, now);
  return retired;
}

/**
 * Ends everything of a connection but its certificates, and emits the events. The caller ends the
 * certificates last, because decisions on them wait from then until the commit. Returns the prefixes of the
 * ended keys.
 */
async function endConnection(
  tx: Transaction,
  secretBox: SecretBox,
  connection_id: string,
  now: Date,
): Promise<string[]> {
  await retireKeys(tx, connection_id, now);
  await withdrawRequests(tx, { connection_id }, REMOVAL_REASON, now);
  await tx("agents")
    .where({ connection_id })
    .whereNull("disabled_at")
    .update({ disabled_at: now, vault_due_at: now });
  const [ended] = await tx("connections")
    .where({ connection_id })
    .update({ removed_at: now, undelivered_sealed: null })
    .returning(["account_id", "customer_account_id", "platform_id"]);
  if (ended === undefined) throw new Error(`There is no connection ${connection_id}`);
  const { account_id, customer_account_id, platform_id } = ended;
  if (platform_id !== null) await tx("platforms").where({ platform_id }).update({ removed_at: now });
  const org_id = customer_account_id ?? account_id;
  const fields = { connection_id, org_id, removed_at: now.toISOString() };
  const revoked = await revocationEvents(tx, { connection_id }, REMOVAL_REASON, now);
  const removed: LifecycleEvent = { type: "connection.removed", connectionId: connection_id, fields };
  await appendEvents(tx, secretBox, [...revoked, removed], now);
  return prefixesOf(tx, { connection_id });
}
