import type { Database } from "../db/connection.ts";
import type { KeyRow, TenantRow } from "../db/rows.ts";
import { createSeals, type Seals } from "../keys/state.ts";
import type { Token } from "../token/client.ts";
import type { Register, StateKind } from "./register.ts";
import { PARTS } from "./register_parts.ts";

/** Ids of keys and names of tenants whose rows are gone, altered, or not in the last state that the audit tells of. */
export type DamagedRows = { keys: string[]; tenants: string[] };

const PAGE = 500;
const ROUNDS = 5;

/**
 * Compares all rows of keys and tenants with the register. `catchUp` takes in what was written meanwhile: what a running vault changed while
 * its rows were read is read again.
 */
export async function compareRows(parts: {
  database: Database;
  token: Pick<Token, "authenticate">;
  register: Register;
  catchUp(): Promise<void>;
}): Promise<DamagedRows> {
  const { database, token, register, catchUp } = parts;
  const seals = createSeals(token, register);
  let found = await findDamaged(database, seals, register);
  for (let round = 0; round < ROUNDS && found.keys.length + found.tenants.length > 0; round += 1) {
    const { seq } = register.head();
    await catchUp();
    if (register.head().seq === seq) break;
    found = await findDamaged(database, seals, register);
  }
  return found;
}

async function findDamaged(database: Database, seals: Seals, register: Register): Promise<DamagedRows> {
  const keys = await damagedOf(
    pagesOf<KeyRow, "key_id">(database, "keys", "key_id"),
    register,
    "key",
    (page) => seals.check({ keys: page, tenants: [] }),
  );
  const tenants = await damagedOf(
    pagesOf<TenantRow, "tenant">(database, "tenants", "tenant"),
    register,
    "tenant",
    (page) => seals.check({ keys: [], tenants: page }),
  );
  return { keys, tenants };
}

async function damagedOf<Row>(
  pages: AsyncIterable<{ rows: Row[]; names: string[] }>,
  register: Register,
  kind: StateKind,
  check: (rows: Row[]) => Promise<boolean[]>,
): Promise<string[]> {
  const damaged: string[] = [];
  const seen = new Set<string>();
  for await (const { rows, names } of pages) {
    const intact = await check(rows);
    for (const [index, name] of names.entries()) {
      seen.add(name);
      if (intact[index] !== true) damaged.push(name);
    }
  }
  for (let part = 0; part < PARTS; part += 1)
    for (const name of register.part(part).content[kind].keys()) if (!seen.has(name)) damaged.push(name);
  return damaged;
}

async function* pagesOf<Row extends Record<Name, string>, Name extends "key_id" | "tenant">(
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
