import type { Refusal } from "../errors.ts";
import type { Journal } from "./journal.ts";
import type { AuditEntry } from "./record.ts";

/**
 * Writes a refusal down before it is answered, so that no attempt goes unseen. Rejects as {@link
 * Journal.record} does.
 */
export async function recordRefusal(
  journal: Pick<Journal, "record">,
  entry: Omit<AuditEntry, "outcome">,
  refusal: Refusal,
): Promise<Refusal> {
  await journal.record({ ...entry, outcome: refusal.refused });
  return refusal;
}
