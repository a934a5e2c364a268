import { afterAll, beforeAll, expect, test } from "vitest";
import { compareRows } from "../../../keyvault/audit/compare.ts";
import { createRegister } from "../../../keyvault/audit/register.ts";
import { type Database, openDatabase } from "../../../keyvault/db/connection.ts";
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

/** What is found of a vault's first key and its tenant, of which no code holds. */
function compare(neverCoded: boolean) {
  const register = { ...createRegister(), isAdoptable: () => neverCoded };
  const token = { authenticate: async (texts: Uint8Array[]) => texts.map(() => Buffer.alloc(32, 1)) };
  return compareRows({ database, token, register, catchUp: async () => {} });
}

test("a row waits for its adoption only if it has no code and the audit says that it never had one", async () => {
  const damaged = { keys: [expect.any(String)], tenants: ["vault"], waiting: 0 };
  expect(await compare(true), "with a code that does not hold").toEqual(damaged);
  for (const table of ["keys", "tenants"]) await home.sql(`UPDATE ${table} SET state_mac = NULL`);
  expect(await compare(false), "with its code taken away").toEqual(damaged);
  expect(await compare(true), "of an earlier version").toEqual({ keys: [], tenants: [], waiting: 2 });
});
