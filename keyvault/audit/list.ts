import { available, type Database } from "../db/database.ts";
import type { AuditRow } from "../db/rows.ts";
import type { Journal } from "./journal.ts";

/** A record for auditors. Times are ISO 8601, bytes hexadecimal. `mac` is the record's code in the chain. */
export type AuditView = Omit<AuditRow, "recorded_at" | "digest" | "mac"> & {
  recorded_at: string;
  digest: string | null;
  mac: string;
};

/**
 * A page of records in order. `next` is the `after` of the next page, or null. `head` is the chain's last
 * record.
 */
export type AuditPage = { records: AuditView[]; next: number | null; head: { seq: number; mac: string } };

/** Selects up to `limit` records after the number `after`, or without `after` the newest `limit` records. */
export type AuditRange = { after?: number; limit: number };

/** Reads the audit. Rejects with `VaultError unavailable` if the database does not answer. */
export type ListAudit = (range: AuditRange) => Promise<AuditPage>;

/** Returns a reader of the audit that `journal` writes. */
export function createAuditListing(parts: { database: Database; journal: Pick<Journal, "head"> }): ListAudit {
  return async ({ after, limit }) => {
    const head = parts.journal.head();
    const start = after ?? Math.max(0, head.seq - limit);
    const rows = await available(() =>
      parts.database<AuditRow>("audit").where("seq", ">", start).orderBy("seq").limit(limit),
    );
    const last = rows.at(-1)?.seq ?? start;
    return {
      records: rows.map(viewRecord),
      next: last < head.seq && rows.length === limit ? last : null,
      head: { seq: head.seq, mac: head.mac.toString("hex") },
    };
  };
}

function viewRecord(row: AuditRow): AuditView {
  return {
    ...row,
    recorded_at: row.recorded_at.toISOString(),
    digest: row.digest?.toString("hex") ?? null,
    mac: row.mac.toString("hex"),
  };
}
