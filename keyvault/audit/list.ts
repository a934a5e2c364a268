import { available, type Database } from "../db/database.ts";
import type { AuditRow } from "../db/rows.ts";
import type { Journal } from "./journal.ts";

/** A record as auditors see it: times in ISO 8601, bytes in hexadecimal. `mac` is its code in the chain. */
export type AuditView = Omit<AuditRow, "recorded_at" | "digest" | "mac"> & {
  recorded_at: string;
  digest: string | null;
  mac: string;
};

/**
 * Records in their order. `next` is the number to go on after, null when there was no more; `head` is the
 * chain's newest.
 */
export type AuditPage = { records: AuditView[]; next: number | null; head: { seq: number; mac: string } };

/** Which records: those after a number, or the newest ones. */
export type AuditRange = { after?: number; limit: number };

/** Reads the audit. Rejects with `VaultError unavailable` when the database does not answer. */
export type ListAudit = (range: AuditRange) => Promise<AuditPage>;

/**
 * Reading the audit of a database that `journal` writes. Without `after`, the newest `limit` records are
 * given.
 */
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
