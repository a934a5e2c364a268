import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { closeLedger, LedgerHeld, openLedger } from "../../../keyvault/audit/ledger.ts";
import { createHome, type VaultHome } from "../fixture.ts";

/** Versions that know of each other by nothing else keep apart by this number. */
const LOCK = 7_233_101;

let home: VaultHome;

beforeAll(async () => {
  home = await createHome({ made: "empty" });
});
afterAll(() => home.remove());

const open = () => openLedger(home.config.databaseUrl, async () => {});
const locks = (granted: boolean) =>
  home.sql("select from pg_locks where locktype = 'advisory' and objid = $1 and granted = $2", [
    LOCK,
    granted,
  ]);

/** A writer of another version, that holds the ledger until it ends. */
async function otherWriter(): Promise<pg.Client> {
  const other = new pg.Client({ connectionString: home.config.databaseUrl });
  await other.connect();
  await other.query("select pg_advisory_lock($1)", [LOCK]);
  return other;
}

test("a writer waits for another one that is just ending, of whatever version that is", async () => {
  const other = await otherWriter();
  const opening = open();
  await expect.poll(() => locks(false), { timeout: 20_000, interval: 5 }).toHaveLength(1);
  await other.end();
  await closeLedger((await opening).client);
});

test("a writer that gives up leaves no connection, nor does one whose preparation fails", async () => {
  const other = await otherWriter();
  await expect(open()).rejects.toBeInstanceOf(LedgerHeld);
  await other.end();
  const failing = openLedger(home.config.databaseUrl, () => Promise.reject(new Error("not whole")));
  await expect(failing).rejects.toThrow("not whole");
  await expect.poll(() => locks(true), { timeout: 20_000 }).toEqual([]);
});

test("a connection whose server takes no notice of its end is let go", async () => {
  const client = { end: () => new Promise(() => {}) } as unknown as pg.Client;
  await closeLedger(client);
  await closeLedger({ end: () => Promise.reject(new Error("gone")) } as unknown as pg.Client);
});
