import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import { type Journal, openJournal } from "../../../keyvault/audit/journal.ts";
import { createRegister } from "../../../keyvault/audit/last_states.ts";
import type { AuditEntry } from "../../../keyvault/audit/record.ts";
import { type Database, openDatabase } from "../../../keyvault/db/database.ts";
import { openToken, type Token } from "../../../keyvault/token/client.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import { API, createHome, SILENT, testClock, type VaultHome } from "../fixture.ts";

/** A vault's token and database with an open journal. Each test may replace the journal. */
export type Chain = {
  home: VaultHome;
  token: Token;
  database: Database;
  journal: Journal;
  /** How often the journal has connected. */
  connections: number;
  open(other?: Partial<Parameters<typeof openJournal>[0]>): Promise<Journal>;
  /** Opens the chain like an earlier version, which neither notes heads in the token nor checks them. */
  openForgetful(): Promise<Journal>;
  /** Returns the notes of all records of {@link entry}, in order. */
  notes(): Promise<string[]>;
  /** Ends the journal's database connection. */
  endWriters(): Promise<unknown>;
  /** Alters rows with the rights of the database's owner. */
  tamper(sql: string): Promise<void>;
  /** Moves the record with this number and all later ones out of the chain. */
  takeOut(seq: number): Promise<void>;
  /** Restores the records of `takeOut`, and deletes the records that replaced them. */
  putBack(): Promise<void>;
};

/** Returns a record that contains a note. */
export const entry = (note: string): AuditEntry => ({
  caller: API,
  statement: "challenge",
  outcome: "granted",
  digest: Buffer.alloc(32, 5),
  detail: { note },
});

/** Opens a chain for the tests of a file, and a new journal for each test. */
export function openChain(): Chain {
  const clock = testClock();
  const chain = {
    connections: 0,
    open: (other = {}) =>
      openJournal({
        databaseUrl: chain.home.config.databaseUrl,
        token: chain.token,
        clock,
        log: SILENT,
        register: createRegister(),
        reopened: () => {
          chain.connections += 1;
        },
        ...other,
      }),
    openForgetful() {
      const { token } = chain;
      const notedHead = async () => ({ head: null });
      return chain.open({ token: { ...token, notedHead, noteHead: async () => ({}) } });
    },
    async notes() {
      const sql = "select detail->>'note' as note from audit where detail ? 'note' order by seq";
      return (await chain.home.sql<{ note: string }>(sql)).map(({ note }) => note);
    },
    endWriters: () =>
      chain.home.sql(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'keyvault-audit' and datname = current_database()",
      ),
    async tamper(sql) {
      await chain.home.sql(
        `alter table audit disable trigger audit_append_only; ${sql}; alter table audit enable trigger audit_append_only`,
      );
    },
    takeOut: (seq) =>
      chain.tamper(
        `create table kept as select * from audit where seq >= ${seq}; delete from audit where seq >= ${seq}`,
      ),
    putBack: () =>
      chain.tamper(`delete from audit where seq >= (select min(seq) from kept);
                    insert into audit select * from kept; drop table kept`),
  } as Chain;

  beforeAll(async () => {
    chain.home = await createHome();
    chain.token = await openToken(await tokenSettings(chain.home.config.token), SILENT);
    chain.database = openDatabase(chain.home.config.migrationDatabaseUrl, SILENT, 2);
  });
  afterAll(async () => {
    await Promise.all([chain.token.close(), chain.database.destroy()]);
    await chain.home.remove();
  });
  beforeEach(async () => {
    chain.journal = await chain.open();
  });
  afterEach(() => chain.journal.close());
  return chain;
}
