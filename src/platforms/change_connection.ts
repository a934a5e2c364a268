import type { Database } from "../db/connection.ts";
import { lockConnection } from "./connection_lock.ts";
import { findConnection } from "./platform_record.ts";

/** What may change of a connection; members left out stay as they are. */
export type ConnectionChange = { verifier_id?: string | undefined; registry_answers?: boolean | undefined };

/** A connection's settings. */
export type ConnectionSettings = { connection_id: string; verifier_id: string; registry_answers: boolean };

/**
 * Changes the name that operations are bound to, or whether AuthZEN questions without a proof are answered. Proofs that
 * are bound to the former name are refused from then on. Every process drops what it remembers of the connection's keys
 * as it hears of the commit. Throws `not_found`.
 */
export async function changeConnection(
  db: Database,
  accountId: string,
  connectionId: string,
  change: ConnectionChange,
): Promise<ConnectionSettings> {
  const { connection_id } = await findConnection(db, accountId, connectionId);
  return db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    const record = await findConnection(tx, accountId, connection_id);
    const next = {
      verifier_id: change.verifier_id ?? record.verifier_id,
      registry_answers: change.registry_answers ?? record.registry_answers,
    };
    await tx("connections").where({ connection_id }).update(next);
    return { connection_id, ...next };
  });
}
