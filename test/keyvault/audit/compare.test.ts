import { afterAll, beforeAll, expect, test } from "vitest";
import { compareRows } from "../../../keyvault/audit/compare.ts";
import { createRegister } from "../../../keyvault/audit/last_states.ts";
import { type Database, openDatabase } from "../../../keyvault/db/database.ts";
import { createHome, SILENT, type VaultHome } from "../fixture.ts";

let home: VaultHome;
let database: Database;

beforeAll(async () => {
  home = await createHome();
  database = openDatabase(home.config.databaseUrl, SILENT, 1);
});
afterAll(async () => {
  await database.destroy();
  await home.remove();
});

const authenticate = async (texts: Uint8Array[]) => texts.map(() => Buffer.alloc(32, 1));

/** Compares a vault's first key and its tenant, whose codes are not valid. */
function compare(neverCoded: boolean) {
  const register = { ...createRegister(), isAdoptable: () => neverCoded };
  return compareRows({ database, token: { authenticate }, register, catchUp: async () => {} });
}

test("compareRows counts a row as waiting for adoption only if it has no code and the audit says that it never had one", async () => {
  const damaged = { keys: [expect.any(String)], tenants: ["vault"], waiting: 0 };
  expect(await compare(true), "with a code that does not hold").toEqual(damaged);
  for (const table of ["keys", "tenants"]) await home.sql(`update ${table} set state_mac = null`);
  expect(await compare(false), "with its code taken away").toEqual(damaged);
  expect(await compare(true), "of an earlier version").toEqual({ keys: [], tenants: [], waiting: 2 });
});

test("compareRows reads rows again only if catchUp has changed the register", async () => {
  let seq = 1;
  const register = {
    ...createRegister(),
    head: () => ({ seq, mac: Buffer.alloc(32) }),
    isLast: () => seq > 2,
    isAdoptable: () => false,
  };
  await home.sql("update keys set state_mac = $1", [Buffer.alloc(32, 1)]);
  await home.sql("update tenants set state_mac = $1", [Buffer.alloc(32, 1)]);
  let caughtUp = 0;
  const catchUp = async () => {
    caughtUp += 1;
    if (seq < 3) seq += 1;
  };
  const compared = await compareRows({ database, token: { authenticate }, register, catchUp });
  expect(compared).toEqual({ keys: [], tenants: [], waiting: 0 });
  expect(caughtUp, "until the rows hold").toBe(2);
  const behind = { ...register, isLast: () => false };
  const damaged = await compareRows({ database, token: { authenticate }, register: behind, catchUp });
  expect(damaged).toMatchObject({ tenants: ["vault"] });
  expect(caughtUp, "until nothing more comes").toBe(3);
});

test("compareRows compares any number of rows", async () => {
  await home.sql(
    `insert into tenants (tenant, kek, wrapped_data_key, created_at)
     select 'bulk-' || n, 'kek-1', '', now() from generate_series(1, 1100) as n`,
  );
  expect((await compare(false)).tenants).toHaveLength(1_101);
});
