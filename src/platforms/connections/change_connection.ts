import type { Database } from "../../db/database.ts";
import type { ApiKeyFinder } from "../api_keys/api_key_finder.ts";
import { lockConnection } from "../connection_lock.ts";
import { findConnection } from "../platform_record.ts";

/** What may change of a connection; members left out stay as they are. */
export type ConnectionChange = { verifier_id?: string | undefined; registry_answers?: boolean | undefined };

/** A connection's settings. */
export type ConnectionSettings = { connection_id: string; verifier_id: string; registry_answers: boolean };

/**
 * Changes the name that operations are bound to, or whether AuthZEN questions without a proof are answered.
 * Proofs that are bound to the former name are refused from then on. This process drops what it remembers of
 * the connection's keys before it answers, every other as it hears of the commit. Throws `not_found`.
 */
export async function changeConnection(
  { db, apiKeys }: { db: Database; apiKeys: Pick<ApiKeyFinder, "forget"> },
  accountId: string,
  connectionId: string,
  change: ConnectionChange,
): Promise<ConnectionSettings> {
  const { connection_id } = await findConnection(db, accountId, connectionId);
  const { settings, keys } = await db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    const record = await findConnection(tx, accountId, connection_id);
    const next = {
      verifier_id: change.verifier_id ?? record.verifier_id,
      registry_answers: change.registry_answers ?? record.registry_answers,
    };
    await tx("connections").where({ connection_id }).update(next);
    const keys = await tx("api_keys").where({ connection_id }).select("key_prefix");
    return { settings: { connection_id, ...next }, keys };
  });
  apiKeys.forget(keys.map(({ key_prefix }) => key_prefix));
  return settings;
}
