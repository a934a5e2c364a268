import type pg from "pg";
import type { Change, Journal } from "../audit/journal.ts";
import type { AuditEntry } from "../audit/record.ts";
import type { KeyRow } from "../db/rows.ts";
import { isRefusal, type Refusal, refuse } from "../errors.ts";
import type { KeyStore } from "./store.ts";

/** What changing a stored key needs. */
export type KeyChangeParts = { journal: Journal; store: KeyStore };

/** A key to change. With a `tenant`, another tenant's key is answered like one that does not exist. */
export type KeyTarget = { keyId: string; tenant: string | undefined };

/**
 * Changes one key and records it in the same transaction; from the moment it is durable no signature is released under the old state.
 * `apply` sees the locked row and either refuses or writes; a refusal is recorded too and changes nothing.
 */
export async function changeKey(
  { journal, store }: KeyChangeParts,
  { keyId, tenant }: KeyTarget,
  about: Omit<AuditEntry, "outcome" | "keyId" | "purpose">,
  apply: (client: pg.Client, row: KeyRow) => Promise<KeyRow | Refusal>,
): Promise<KeyRow | Refusal> {
  return journal.change(async (client): Promise<Change<KeyRow | Refusal>> => {
    const { rows } = await client.query<KeyRow>("SELECT * FROM keys WHERE key_id = $1 FOR UPDATE", [keyId]);
    const row = rows.find((found) => tenant === undefined || found.tenant === tenant);
    const result = row === undefined ? refuse("key_not_found") : await apply(client, row);
    const entry = { ...about, keyId, ...(row && { purpose: row.purpose }) };
    if (isRefusal(result)) return { value: result, entry: { ...entry, outcome: result.refused } };
    return { value: result, entry: { ...entry, outcome: "granted" }, committed: () => store.changed(keyId) };
  });
}
