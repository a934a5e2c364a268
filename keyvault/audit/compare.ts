import type { Database } from "../db/database.ts";
import type { KeyRow, TenantRow } from "../db/rows.ts";
import type { Token } from "../token/client.ts";
import type { Register, StateKind } from "./last_states.ts";
import { PARTS } from "./last_states_parts.ts";
import { createRowCodes, type RowCodes } from "./row_codes.ts";

/**
 * Ids of damaged keys and names of damaged tenants. A row is damaged if it is missing, altered, or not the
 * last state that the audit records. `waiting` counts rows that an earlier version stored without a code.
 * They wait for adoption and are not damaged.
 */
export type DamagedRows = { keys: string[]; tenants: string[]; waiting: number };

const PAGE = 500;
const ROUNDS = 5;

/**
 * Compares all rows of keys and tenants with the register. A running vault may change rows meanwhile. If rows
 * differ, `catchUp` brings the register up to date, and all rows are read again.
 */
export async function compareRows(parts: {
  database: Database;
  token: Pick<Token, "authenticate">;
  register: Register;
  catchUp(): Promise<void>;
}): Promise<DamagedRows> {
  const { database, token, register, catchUp } = parts;
  const rowCodes = createRowCodes(token, register);
  let found = await findDamaged(database, rowCodes, register);
  for (let round = 0; round < ROUNDS && found.keys.length + found.tenants.length > 0; round += 1) {
    const { seq } = register.head();
    await catchUp();
    if (register.head().seq === seq) break;
    found = await findDamaged(database, rowCodes, register);
  }
  return found;
}

async function findDamaged(database: Database, rowCodes: RowCodes, register: Register): Promise<DamagedRows> {
  const keys = await damagedOf(
    pagesOf<KeyRow, "key_id">(database, "keys", "key_id"),
    register,
    "key",
    (page) => rowCodes.check({ keys: page, tenants: [] }),
  );
  const tenants = await damagedOf(
    pagesOf<TenantRow, "tenant">(database, "tenants", "tenant"),
    register,
    "tenant",
    (page) => rowCodes.check({ keys: [], tenants: page }),
  );
  const damaged = { keys: keys.damaged, tenants: tenants.damaged };
  return { ...damaged, waiting: keys.waiting + tenants.waiting };
}

async function damagedOf<Row extends { state_mac: Buffer | null }>(
  pages: AsyncIterable<{ rows: Row[]; names: string[] }>,
  register: Register,
  kind: StateKind,
  check: (rows: Row[]) => Promise<boolean[]>,
): Promise<{ damaged: string[]; waiting: number }> {
  const damaged: string[] = [];
  let waiting = 0;
  const seen = new Set<string>();
  for await (const { rows, names } of pages) {
    const intact = await check(rows);
    for (const [index, name] of names.entries()) {
      seen.add(name);
      if (intact[index] === true) continue;
      if (rows[index]?.state_mac === null && register.isAdoptable(kind, name)) {
        waiting += 1;
      } else {
        damaged.push(name);
      }
    }
  }
  damaged.push(...namesOf(register, kind).filter((name) => !seen.has(name)));
  return { damaged, waiting };
}

function namesOf(register: Register, kind: StateKind): string[] {
  return Array.from({ length: PARTS }, (_, part) => [...register.part(part).content[kind].keys()]).flat();
}

async function* pagesOf<
  Row extends Record<Name, string> & { state_mac: Buffer | null },
  Name extends "key_id" | "tenant",
>(
  database: Database,
  table: "keys" | "tenants",
  name: Name,
): AsyncGenerator<{ rows: Row[]; names: string[] }> {
  for (let after: string | undefined; ; ) {
    const query = database(table).orderBy(name).limit(PAGE);
    if (after !== undefined) query.where(name, ">", after);
    const rows = (await query) as Row[];
    if (rows.length === 0) return;
    const names = rows.map((row) => row[name]);
    yield { rows, names };
    after = names.at(-1);
  }
}
