import type { Knex } from "knex";
import { z } from "zod";
import type { Database } from "../db/database.ts";
import { type HistoryRow, historyColumns, historyEntry, showHistoryRow } from "./history_entry.ts";

/** An event with the names of what it is about, as far as they are the account's own. */
export const namedEntry = historyEntry.extend({
  agent_name: z.string().nullable().describe("Null for another account's agent"),
  platform_id: z.string().nullable().describe("Null for another account's platform; see details.verifier"),
  platform_name: z.string().nullable(),
  human_id: z.string().nullable().describe("On whose authority the agent acted: the root of its chain"),
  receipt_hash: z.string().nullable().describe("sha256:<hex> of the receipt that details.receipt_id names"),
});

/** What answers show of it. */
export type NamedEntry = z.infer<typeof namedEntry>;

/** A row of {@link withNames}. */
export type NamedRow = HistoryRow &
  Pick<NamedEntry, "agent_name" | "platform_id" | "platform_name" | "human_id" | "receipt_hash">;

/** Events of `audit_events` as `e`, with their names. */
export function withNames(db: Database, found: Knex.QueryBuilder): Knex.QueryBuilder {
  const own = (alias: string, column: string): Knex.JoinCallback =>
    function () {
      this.on(`${alias}.account_id`, "e.account_id").on(`${alias}.${column}`, `e.${column}`);
    };
  return found
    .leftJoin("agents as a", own("a", "agent_id"))
    .leftJoin("connections as c", own("c", "connection_id"))
    .leftJoin("platforms as p", "p.platform_id", "c.platform_id")
    .select(
      ...historyColumns(db),
      "e.human_id",
      "a.name as agent_name",
      "p.platform_id",
      "p.name as platform_name",
      db.raw("'sha256:' || encode(e.receipt_hash, 'hex') as receipt_hash"),
    );
}

/** An event with its names, as its owner sees it. */
export function showNamedRow(row: NamedRow): NamedEntry {
  const { agent_name, platform_id, platform_name, human_id, receipt_hash } = row;
  return { ...showHistoryRow(row), agent_name, platform_id, platform_name, human_id, receipt_hash };
}
