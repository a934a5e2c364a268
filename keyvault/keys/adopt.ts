import type pg from "pg";
import type { Change, Journal } from "../audit/journal.ts";
import type { Caller } from "../audit/record.ts";
import type { Database } from "../db/connection.ts";
import type { KeyRow, TenantRow } from "../db/rows.ts";
import type { Seals } from "./state.ts";
import { available } from "./store.ts";

const LOCAL: Caller = { role: "local", name: "upgrade" };
const BATCH = 500;

/**
 * Seals the rows that an older version left without a code, once in a vault's life: the audit record that says it is done ends it, and from
 * then on a row without a code is a damaged one. Resumed at the next start when it was cut off.
 */
export async function adoptStates(parts: {
  database: Database;
  journal: Journal;
  seals: Seals;
}): Promise<void> {
  const { database, journal, seals } = parts;
  const done = await available(() =>
    database("audit")
      .where({ statement: "state_adopt", outcome: "granted" })
      .whereRaw("detail ->> 'rows' = '0'")
      .orderBy("seq")
      .first("seq"),
  );
  if (done !== undefined) return;
  for (let rows = BATCH; rows > 0; ) rows = await journal.change((client, seq) => adopt(client, seq, seals));
}

async function adopt(client: pg.Client, seq: number, seals: Seals): Promise<Change<number>> {
  const { rows: keys } = await client.query<KeyRow>("SELECT * FROM keys WHERE state_mac IS NULL LIMIT $1", [
    BATCH,
  ]);
  const { rows: tenants } = await client.query<TenantRow>(
    "SELECT * FROM tenants WHERE state_mac IS NULL LIMIT $1",
    [BATCH],
  );
  const numbered = <Row>(row: Row) => ({ ...row, state_seq: seq });
  const sealed = await seals.seal({ keys: keys.map(numbered), tenants: tenants.map(numbered) });
  await write(
    client,
    "keys",
    "key_id",
    seq,
    sealed.keys.map(({ key_id, state_mac }) => [key_id, state_mac]),
  );
  await write(
    client,
    "tenants",
    "tenant",
    seq,
    sealed.tenants.map(({ tenant, state_mac }) => [tenant, state_mac]),
  );
  const count = keys.length + tenants.length;
  return {
    value: count,
    entry: { caller: LOCAL, statement: "state_adopt", outcome: "granted", detail: { rows: String(count) } },
  };
}

async function write(
  client: pg.Client,
  table: "keys" | "tenants",
  name: "key_id" | "tenant",
  seq: number,
  codes: (readonly [string, Buffer])[],
): Promise<void> {
  await client.query(
    `UPDATE ${table} SET state_seq = $1, state_mac = code.mac
     FROM unnest($2::text[], $3::bytea[]) AS code (name, mac) WHERE ${table}.${name} = code.name`,
    [seq, codes.map(([id]) => id), codes.map(([, mac]) => mac)],
  );
}
