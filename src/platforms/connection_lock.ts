import type { Transaction } from "../db/database.ts";

/**
 * Makes the transaction the only one that changes a connection and what hangs on it: its platform's ceiling,
 * its keys, agents, requests and certificates. Every such change takes this lock first and reads afterwards,
 * so none can decide on what another is about to change, and none can deadlock with another. Rows that merely
 * refer to the connection can still be inserted by others meanwhile.
 */
export async function lockConnection(tx: Transaction, connectionId: string): Promise<void> {
  await tx("connections").select("connection_id").where({ connection_id: connectionId }).forNoKeyUpdate();
}
