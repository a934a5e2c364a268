import { addSeconds, type Clock } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import { appendEvent } from "../../events/outbox.ts";
import type { SecretBox } from "../../secret_box.ts";
import {
  type ConnectionPlace,
  findConnection,
  type LivePlatform,
  lockConnection,
} from "../platform_record.ts";
import { newApiKey, undeliveredContext } from "./api_key.ts";
import type { ApiKeyFinder } from "./api_key_finder.ts";

/**
 * A rotation, after which every earlier key remains valid for at most `graceSeconds` (0–86400). `request` is
 * the request of a declared platform's object that the rotation carries out.
 */
export type Rotation = ConnectionPlace & { graceSeconds: number; request?: string | undefined };

/** Dependencies of retiring API keys. */
export type RetireDeps = {
  db: Database;
  secretBox: SecretBox;
  clock: Clock;
  apiKeys: Pick<ApiKeyFinder, "forget">;
};

/** The answer to a rotation. It shows the new key once. */
export type RotatedKey = { api_key: string; api_key_prefix: string; previous_prefix: string };

/**
 * Replaces a connection's API key and emits `connection.key_rotated`. The new key of a platform that the
 * operator declared is kept encrypted until the operator has stored it. Throws `not_found`.
 */
export async function rotateKey(
  { db, secretBox, clock, apiKeys }: RetireDeps,
  { accountId, connectionId, graceSeconds, request, check }: Rotation,
): Promise<RotatedKey> {
  const { connection_id } = await findConnection(db, accountId, connectionId);
  const { rotated, retired } = await db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    const record = await findConnection(tx, accountId, connection_id);
    await check?.(tx);
    return replaceKey(tx, secretBox, record, { graceSeconds, request, now: clock.now() });
  });
  apiKeys.forget(retired);
  return rotated;
}

/** Ends the replaced keys that are still valid and returns their prefixes. Throws `not_found`. */
export async function endFormerKeys(
  { db, clock, apiKeys }: Omit<RetireDeps, "secretBox">,
  accountId: string,
  connectionId: string,
): Promise<string[]> {
  const { connection_id } = await findConnection(db, accountId, connectionId);
  const ended = await db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    const now = clock.now();
    const prefixes = await tx("api_keys")
      .where({ connection_id })
      .andWhere("retires_at", ">", now)
      .update({ retires_at: now })
      .returning("key_prefix");
    return prefixes.map(({ key_prefix }) => key_prefix);
  });
  apiKeys.forget(ended);
  return ended;
}

/** The connection, its current key, and the object that declares its platform. */
type Replaced = Pick<LivePlatform, "account_id" | "connection_id" | "external_id" | "api_key_prefix">;

/**
 * Rotates a key as {@link rotateKey} does, in a transaction that holds the connection's lock. `retired` has
 * the prefixes of all keys whose expiry changed. After the commit, the caller must remove them from the
 * finder's cache.
 */
export async function replaceKey(
  tx: Transaction,
  secretBox: SecretBox,
  { account_id, connection_id, external_id, api_key_prefix }: Replaced,
  { graceSeconds, request, now }: { graceSeconds: number; request?: string | undefined; now: Date },
): Promise<{ rotated: RotatedKey; retired: string[] }> {
  const key = newApiKey();
  const retired = await retireKeys(tx, connection_id, addSeconds(now, graceSeconds));
  await tx("api_keys").insert({
    key_prefix: key.prefix,
    key_hash: key.hash,
    account_id,
    connection_id,
    created_at: now,
  });
  if (external_id !== null) {
    await tx("connections")
      .where({ connection_id })
      .update({
        undelivered_sealed: secretBox.box(key.apiKey, undeliveredContext(connection_id)),
        ...(request !== undefined && { rotation_request: request }),
      });
  }
  const prefixes = { api_key_prefix: key.prefix, previous_prefix: api_key_prefix };
  const fields = { connection_id, ...prefixes };
  await appendEvent(
    tx,
    secretBox,
    { type: "connection.key_rotated", connectionId: connection_id, fields },
    now,
  );
  return { rotated: { api_key: key.apiKey, ...prefixes }, retired };
}

/**
 * Makes every key of a connection expire at `end` or earlier. Returns the prefixes of the changed keys. After
 * the commit, the caller must remove these prefixes from the finder's cache.
 */
export async function retireKeys(tx: Transaction, connectionId: string, end: Date): Promise<string[]> {
  const retired = await tx("api_keys")
    .where({ connection_id: connectionId })
    .andWhere((key) => key.whereNull("retires_at").orWhere("retires_at", ">", end))
    .update({ retires_at: end })
    .returning("key_prefix");
  return retired.map(({ key_prefix }) => key_prefix);
}
