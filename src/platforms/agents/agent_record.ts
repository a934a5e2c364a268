import type { Database, Transaction } from "../../db/database.ts";
import type { AgentRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import { isKeyId } from "../../ids.ts";

/**
 * The connection's agent with this id, disabled or not. Throws `not_found` when it is another's or nobody's.
 */
export async function findAgent(
  db: Database | Transaction,
  connectionId: string,
  agentId: string,
): Promise<AgentRow> {
  if (!isKeyId(agentId)) throw new ApiError("not_found");
  const row = await db("agents").where({ agent_id: agentId, connection_id: connectionId }).first();
  if (row === undefined) throw new ApiError("not_found");
  return row;
}
