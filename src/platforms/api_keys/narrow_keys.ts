import { addSeconds, type Clock } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import type { NarrowKeyRow } from "../../db/key_tables.ts";
import { ApiError } from "../../errors.ts";
import { appendEvent, appendEvents } from "../../events/outbox.ts";
import type { NarrowRole } from "../../route.ts";
import type { SecretBox } from "../../secret_box.ts";
import { findPrincipalConnection, lockConnection } from "../platform_record.ts";
import { BY_OPERATOR, newApiKey } from "./api_key.ts";
import type { ApiKeyFinder } from "./api_key_finder.ts";

/** Limit for the narrow keys of one connection that are not ended, without those of Kubernetes objects. */
const MAX_KEYS = 100;
/** Seconds for which an ended key stays in the list. */
export const KEPT_SECONDS = 7 * 24 * 3_600;

/**
 * A key to create. `agentId` is the agent of an agent key. `madeWith` is the prefix of the caller's key, or
 * {@link BY_OPERATOR}.
 */
export type NewNarrowKey = {
  accountId: string;
  connectionId: string;
  role: NarrowRole;
  agentId: string | null;
  madeWith: string | null;
};

/** A new row, and the key itself, which is shown or delivered once. */
export type CreatedNarrowKey = NarrowKeyRow & { apiKey: string };

type Deps = { db: Database; secretBox: SecretBox; clock: Clock };

/**
 * Creates an API key that may do less than a full key. It ends together with its agent and its connection.
 * Replacing the full key does not end it. Throws `not_found`, `agent_disabled` and `key_limit`.
 */
export async function createNarrowKey(
  { db, secretBox, clock }: Deps,
  key: NewNarrowKey & { principalAccountId: string },
): Promise<CreatedNarrowKey> {
  const { principalAccountId, connectionId, agentId } = key;
  return db.transaction(async (tx) => {
    await lockConnection(tx, connectionId);
    await findPrincipalConnection(tx, principalAccountId, connectionId);
    if (agentId !== null) await requireAgent(tx, connectionId, agentId);
    const live = await tx("narrow_keys")
      .where({ connection_id: connectionId, ended_at: null })
      .whereRaw("made_with is distinct from ?", BY_OPERATOR)
      .count<{ count: string }[]>();
    if (Number(live[0]?.count) >= MAX_KEYS) throw new ApiError("key_limit");
    return addNarrowKey(tx, secretBox, key, clock.now());
  });
}

/**
 * Creates a key in a transaction that holds the connection's lock, and emits `connection.key_created`.
 * Removes keys that ended more than seven days ago.
 */
export async function addNarrowKey(
  tx: Transaction,
  secretBox: SecretBox,
  { accountId, connectionId, role, agentId, madeWith }: NewNarrowKey,
  now: Date,
): Promise<CreatedNarrowKey> {
  await removeOldKeys(tx, connectionId, addSeconds(now, -KEPT_SECONDS));
  const { apiKey, prefix, hash } = newApiKey(role);
  const row = {
    key_prefix: prefix,
    key_hash: hash,
    role,
    account_id: accountId,
    connection_id: connectionId,
    agent_id: agentId,
    made_with: madeWith,
    created_at: now,
    ended_at: null,
    retires_at: null,
    undelivered_sealed: null,
    rotation_request: null,
  };
  await tx("narrow_keys").insert(row);
  const fields = { ...shownFields(row), made_with: madeWith };
  await appendEvent(tx, secretBox, { type: "connection.key_created", connectionId, fields }, now);
  return { ...row, apiKey };
}

/** Throws `not_found` or `agent_disabled` if a connection has no such agent, or only a deleted one. */
export async function requireAgent(
  tx: Database | Transaction,
  connectionId: string,
  agentId: string,
): Promise<void> {
  const agent = await tx("agents").where({ agent_id: agentId, connection_id: connectionId }).first();
  if (agent === undefined) throw new ApiError("not_found");
  if (agent.disabled_at !== null) throw new ApiError("agent_disabled");
}

async function removeOldKeys(tx: Transaction, connectionId: string, before: Date): Promise<void> {
  const removed = await tx("narrow_keys")
    .where({ connection_id: connectionId })
    .andWhere((end) => end.where("ended_at", "<", before).orWhere("retires_at", "<", before))
    .delete()
    .returning("key_prefix");
  const prefixes = removed.map(({ key_prefix }) => key_prefix);
  if (prefixes.length > 0) await tx("key_uses").whereIn("key_prefix", prefixes).delete();
}

function shownFields({ connection_id, key_prefix, role, agent_id }: NarrowKeyRow) {
  return { connection_id, api_key_prefix: key_prefix, role, agent_id };
}

/** Emits `connection.key_ended` for keys of one connection. `endedWith` is like the maker of a new key. */
export async function noteEnded(
  tx: Transaction,
  secretBox: SecretBox,
  keys: readonly NarrowKeyRow[],
  { end, endedWith, now }: { end: Date; endedWith: string | null; now: Date },
): Promise<void> {
  const ended = { ended_at: end.toISOString(), ended_with: endedWith };
  const events = keys.map((key) => ({
    type: "connection.key_ended" as const,
    connectionId: key.connection_id,
    fields: { ...shownFields(key), ...ended },
  }));
  await appendEvents(tx, secretBox, events, now);
}

/**
 * Ends a narrow key immediately, and emits `connection.key_ended`. `endedWith` is the prefix of the caller's
 * key. Returns the time of its end; a repeated call returns the same time. Throws `not_found` if the
 * connection has no such narrow key.
 */
export async function endNarrowKey(
  { db, secretBox, clock, apiKeys }: Deps & { apiKeys: Pick<ApiKeyFinder, "forget"> },
  key: { connection_id: string; key_prefix: string },
  endedWith: string | null,
): Promise<Date> {
  const endedAt = await db.transaction(async (tx) => {
    await lockConnection(tx, key.connection_id);
    const now = clock.now();
    const ended = await tx("narrow_keys")
      .where({ ...key, ended_at: null })
      .update({ ended_at: now, undelivered_sealed: null })
      .returning("*");
    await noteEnded(tx, secretBox, ended, { end: now, endedWith, now });
    const row = await tx("narrow_keys").where(key).first("ended_at");
    if (row === undefined) throw new ApiError("not_found");
    return row.ended_at ?? now;
  });
  apiKeys.forget([key.key_prefix]);
  return endedAt;
}

/**
 * Returns the prefixes of all keys of a connection, or of the keys of one agent. After a change to what these
 * keys may do, the caller must remove them from the finder's cache.
 */
export async function prefixesOf(
  tx: Database | Transaction,
  of: { connection_id: string; agent_id?: string },
): Promise<string[]> {
  const narrow = await tx("narrow_keys").where(of).select("key_prefix");
  const full = of.agent_id === undefined ? await tx("api_keys").where(of).select("key_prefix") : [];
  return [...full, ...narrow].map(({ key_prefix }) => key_prefix);
}
