import type { Database } from "../../db/database.ts";
import type { CheckedArchive } from "./check_archive.ts";
import { rowCounts } from "./form.ts";

/** Keeps that a month was archived, by the manifest of an archive that was read and is whole. */
export async function noteArchive(
  db: Database,
  { month, manifest, hash }: Omit<CheckedArchive, "receipts">,
  now: Date,
): Promise<void> {
  await db("history_archives")
    .insert({
      starts_at: month.from,
      ends_at: month.to,
      manifest_hash: hash,
      row_counts: JSON.stringify(rowCounts(manifest)),
      archived_at: now,
    })
    .onConflict(["starts_at", "manifest_hash"])
    .ignore();
}

/** Where the history begins: what is older was dropped. Undefined while nothing ever was. */
export async function readHistoryBegin(db: Database): Promise<Date | undefined> {
  const row = await db("history_archives")
    .whereNotNull("dropped_at")
    .orderBy("ends_at", "desc")
    .first("ends_at");
  return row?.ends_at;
}
