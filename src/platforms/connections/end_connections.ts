import type { Database, Transaction } from "../../db/database.ts";
import { appendEvents, type LifecycleEvent } from "../../events/outbox.ts";
import type { Logger } from "../../log.ts";
import type { SecretBox } from "../../secret_box.ts";
import { prefixesOf } from "../api_keys/narrow_keys.ts";
import { retireKeys } from "../api_keys/rotate_key.ts";
import { revocationEvents, revokeCertificates, withdrawRequests } from "../end_authority.ts";
import { type Party, tellOtherParty } from "./connection_acts.ts";

/** How many customer connections end in the transaction that removes them. The worker ends the others. */
const AT_ONCE = 20;
/** How many connections a step of the worker tries to end. */
const STEP_ENDS = 100;
/** How many of them a worker ends concurrently. */
const LANES = 4;
const REMOVAL_REASON = "connection removed";

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
  return idsOf(locked);
}

/**
 * Removes all connections of accounts, as {@link endTogether} does: those of their platforms, with all
 * customers, and theirs with other accounts' platforms. The caller must hold the locks of the connections,
 * and must call it last in the transaction. Returns the prefixes of the ended keys, which the caller passes
 * to the finder after the commit.
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
    .orderByRaw("platform_id is null, connection_id")
    .select("connection_id");
  return endTogether(tx, secretBox, idsOf(rows), { by: "customer", now });
}

/**
 * Removes locked connections. From the commit on, their API keys are refused, nothing new is made there, and
 * no decision allows. For each connection, certificates are revoked, pending requests withdrawn and agents
 * disabled, with one `delegation.revoked` for each certificate and then one `connection.removed`. This
 * happens in the same transaction for own connections and the first 20 of customers. The worker does it for
 * the others, however many there are. Until then, the own connection of their platform has an `end_due_at`.
 *
 * `connectionIds` lists each own connection together with all its live customers, which the publisher ends.
 * `by` ends the others. Call it last in the transaction. Returns the prefixes of the ended keys.
 */
export async function endTogether(
  tx: Transaction,
  secretBox: SecretBox,
  connectionIds: readonly string[],
  { by, now }: { by: Party; now: Date },
): Promise<string[]> {
  const ids = [...connectionIds];
  const rows = await tx("connections")
    .whereRaw("connection_id = any (?::uuid[])", [ids])
    .orderByRaw("platform_id is null, connection_id")
    .select("connection_id", "platform_id", "product_id");
  const platforms = rows.flatMap(({ platform_id }) => platform_id ?? []);
  const [first, others] = [rows.slice(0, platforms.length + AT_ONCE), rows.slice(platforms.length + AT_ONCE)];
  const retired: string[] = [];
  for (const { connection_id, product_id } of first) {
    const party = product_id !== null && platforms.includes(product_id) ? "publisher" : by;
    await retireKeys(tx, connection_id, now);
    await endConnection(tx, secretBox, connection_id, { by: party, now });
    retired.push(...(await prefixesOf(tx, { connection_id })));
  }
  retired.push(...(await endLater(tx, idsOf(others), now)));
  await tx("platforms").whereIn("platform_id", platforms).update({ removed_at: now });
  await revokeCertificates(tx, idsOf(first), REMOVAL_REASON, now);
  return retired;
}

function idsOf(rows: readonly { connection_id: string }[]): string[] {
  return rows.map(({ connection_id }) => connection_id);
}

/** Leaves connections to the worker. Their platforms' own connections wait for them. */
async function endLater(tx: Transaction, connectionIds: string[], now: Date): Promise<string[]> {
  if (connectionIds.length === 0) return [];
  const { rows } = await tx.raw<{ rows: { key_prefix: string }[] }>(
    "select key_prefix from end_later(:connectionIds::uuid[], :now) as key_prefix",
    { connectionIds, now },
  );
  await tx.raw(
    `update connections own set end_due_at = '-infinity' from platforms p
     where own.platform_id = p.platform_id and own.removed_at is not null and p.platform_id in (
       select product_id from connections where connection_id = any (:connectionIds::uuid[]))`,
    { connectionIds },
  );
  return rows.map(({ key_prefix }) => key_prefix);
}

/**
 * Ends everything of a connection but its full keys and certificates, emits the events, and tells the other
 * party of a customer connection. The caller ends the certificates last, because decisions on them wait from
 * then until the commit. A connection that was removed before keeps this time.
 */
async function endConnection(
  tx: Transaction,
  secretBox: SecretBox,
  connection_id: string,
  { by, now }: { by: Party; now: Date },
): Promise<void> {
  await withdrawRequests(tx, { connection_id }, REMOVAL_REASON, now);
  await tx("agents")
    .where({ connection_id })
    .whereNull("disabled_at")
    .update({ disabled_at: now, vault_due_at: now });
  const [ended] = await tx("connections")
    .where({ connection_id })
    .update({
      removed_at: tx.raw("coalesce(removed_at, ?)", [now]) as never,
      end_due_at: null,
      undelivered_sealed: null,
    })
    .returning(["connection_id", "account_id", "product_id", "customer_account_id", "removed_at"]);
  if (ended == null || ended.removed_at === null) throw new Error(`There is no connection ${connection_id}`);
  const { account_id, customer_account_id, removed_at } = ended;
  const org_id = customer_account_id ?? account_id;
  const fields = { connection_id, org_id, removed_at: removed_at.toISOString() };
  const revoked = await revocationEvents(tx, { connection_id }, REMOVAL_REASON, now);
  const removed: LifecycleEvent = { type: "connection.removed", connectionId: connection_id, fields };
  await appendEvents(tx, secretBox, [...revoked, removed], now);
  if (customer_account_id !== null) {
    const operation = by === "customer" ? "end_connected_product" : "remove_customer";
    await tellOtherParty(tx, ended, { by, operation, now });
  }
}

/** SQL for connections `c` that the worker can end now. An own connection first waits for all customers. */
const DUE = `c.end_due_at <= now() and not exists (
  select from connections x where x.product_id = c.platform_id and x.end_due_at is not null)`;

/** Dependencies of the worker's part of a removal. */
export type EndDeps = { database: Database; secretBox: SecretBox; log: Logger };

/**
 * Ends up to 100 connections that {@link endTogether} left, four at a time, each in a transaction of its own.
 * Workers share the work, and a dead worker's connection is free again. If a connection cannot end, the step
 * logs why, and tries it again after a minute. Returns whether any connection ended.
 */
export async function stepEnds(deps: EndDeps): Promise<boolean> {
  const { rows } = await deps.database.raw<{ rows: { connection_id: string }[] }>(
    `select c.connection_id from connections c where ${DUE} limit ${STEP_ENDS}`,
  );
  let ended = false;
  const endInTurn = async () => {
    for (let left = rows.pop(); left !== undefined; left = rows.pop()) {
      if (await tryEnd(deps, left.connection_id)) ended = true;
    }
  };
  await Promise.all(Array.from({ length: LANES }, endInTurn));
  return ended;
}

async function tryEnd({ database, secretBox, log }: EndDeps, connectionId: string): Promise<boolean> {
  try {
    return await database.transaction((tx) => endLeft(tx, secretBox, connectionId));
  } catch (error) {
    await database.raw(
      `update connections set end_due_at = now() + interval '1 minute'
       where connection_id = ? and end_due_at is not null`,
      [connectionId],
    );
    log.warn({ connection_id: connectionId, err: error }, "a removed connection has not ended yet");
    return false;
  }
}

/** Returns `false` if another worker ends the connection. */
async function endLeft(tx: Transaction, secretBox: SecretBox, connectionId: string): Promise<boolean> {
  const { rows } = await tx.raw<{ rows: { platform_id: string | null; by: Party; now: Date }[] }>(
    `select c.platform_id, now() as now,
       case when exists (select from platforms p where p.platform_id = c.product_id and p.removed_at is not null)
         then 'publisher' else 'customer' end as by
     from connections c where c.connection_id = ? and ${DUE} for no key update of c skip locked`,
    [connectionId],
  );
  const [left] = rows;
  if (left === undefined) return false;
  if (left.platform_id === null) {
    await endConnection(tx, secretBox, connectionId, left);
    await revokeCertificates(tx, [connectionId], REMOVAL_REASON, left.now);
  } else {
    await tx("connections").where({ connection_id: connectionId }).update({ end_due_at: null });
  }
  return true;
}
