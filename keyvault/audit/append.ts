import type pg from "pg";
import type { AuditRow } from "../db/rows.ts";

/**
 * Appends records in one statement, and so in one wait for the disk. The primary key refuses a number that is taken, so two writers
 * can never fork the chain.
 */
export async function appendRecords(client: pg.Client, records: readonly AuditRow[]): Promise<void> {
  await client.query({
    name: "audit_append",
    text: `
      INSERT INTO audit (seq, recorded_at, caller, role, key_id, purpose, statement, digest, outcome, detail, mac)
      SELECT * FROM unnest(
        $1::bigint[], $2::timestamptz[], $3::text[], $4::text[], $5::text[], $6::text[],
        $7::text[], $8::bytea[], $9::text[], $10::jsonb[], $11::bytea[])`,
    values: [
      records.map((record) => record.seq),
      records.map((record) => record.recorded_at.toISOString()),
      records.map((record) => record.caller),
      records.map((record) => record.role),
      records.map((record) => record.key_id),
      records.map((record) => record.purpose),
      records.map((record) => record.statement),
      records.map((record) => record.digest),
      records.map((record) => record.outcome),
      records.map((record) => JSON.stringify(record.detail)),
      records.map((record) => record.mac),
    ],
  });
}
