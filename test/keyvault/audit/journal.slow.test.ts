import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { type Journal, openJournal } from "../../../keyvault/audit/journal.ts";
import { createRegister } from "../../../keyvault/audit/last_states.ts";
import type { AuditEntry } from "../../../keyvault/audit/record.ts";
import { verifyChain } from "../../../keyvault/audit/verify_chain.ts";
import { type Database, openDatabase } from "../../../keyvault/db/database.ts";
import { VaultError } from "../../../keyvault/errors.ts";
import { openToken, type Token } from "../../../keyvault/token/client.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import { API, createHome, SILENT, testClock, type VaultHome } from "../fixture.ts";

let home: VaultHome;
let token: Token;
let database: Database;
let journal: Journal;
let reopened = 0;
const clock = testClock();

const entry = (detail: string): AuditEntry => ({
  caller: API,
  statement: "challenge",
  outcome: "granted",
  digest: Buffer.alloc(32, 5),
  detail: { note: detail },
});
const open = (other: Partial<Parameters<typeof openJournal>[0]> = {}) =>
  openJournal({
    databaseUrl: home.config.databaseUrl,
    token,
    clock,
    log: SILENT,
    register: createRegister(),
    reopened: () => {
      reopened += 1;
    },
    ...other,
  });
/** Opens the chain like an earlier version, which neither notes heads in the token nor checks them. */
const openForgetful = () =>
  open({ token: { ...token, notedHead: async () => ({ head: null }), noteHead: async () => ({}) } });
const notes = async (): Promise<string[]> =>
  (
    await home.sql<{ note: string }>(
      "select detail->>'note' as note from audit where detail ? 'note' order by seq",
    )
  ).map(({ note }) => note);
const endWriters = () =>
  home.sql(
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'keyvault-audit' and datname = current_database()",
  );

/** Alters rows with the rights of the database's owner. */
async function tamper(sql: string): Promise<void> {
  await home.sql(
    `alter table audit disable trigger audit_append_only; ${sql}; alter table audit enable trigger audit_append_only`,
  );
}

/** Moves the record with this number and all later ones out of the chain. */
const takeOut = (seq: number) =>
  tamper(
    `create table kept as select * from audit where seq >= ${seq}; delete from audit where seq >= ${seq}`,
  );
/** Restores the records of {@link takeOut}, and deletes the records that replaced them. */
const putBack = () =>
  tamper(`delete from audit where seq >= (select min(seq) from kept);
          insert into audit select * from kept; drop table kept`);

beforeAll(async () => {
  home = await createHome();
  token = await openToken(await tokenSettings(home.config.token), SILENT);
  database = openDatabase(home.config.migrationDatabaseUrl, SILENT, 2);
});
afterAll(async () => {
  await Promise.all([token.close(), database.destroy()]);
  await home.remove();
});
beforeEach(async () => {
  journal = await open();
});
afterEach(async () => {
  await journal.close();
});

test("the journal stores concurrent records in order, and resolves each call after its record is stored", async () => {
  const given = Array.from({ length: 500 }, (_, index) => `n${index}`);
  await Promise.all(given.map((note) => journal.record(entry(note))));
  expect(await notes()).toEqual(given);
  expect(await verifyChain(database, token)).toEqual({ intact: true, head: journal.head() });
});

test("the journal writes many concurrent records in few transactions", async () => {
  const before = await home.sql<{ xact: string }>("select count(distinct xmin::text) as xact from audit");
  await Promise.all(Array.from({ length: 200 }, () => journal.record(entry("shared"))));
  const after = await home.sql<{ xact: string }>("select count(distinct xmin::text) as xact from audit");
  expect(Number(after[0]?.xact) - Number(before[0]?.xact)).toBeLessThanOrEqual(4);
});

test("the journal calls stillTrue after earlier changes took effect, and writes nothing if stillTrue returns false", async () => {
  let state = "old";
  const seen: string[] = [];
  const ask = () => {
    seen.push(state);
    return state === "old";
  };
  const results = await Promise.all([
    journal.record(entry("before"), ask),
    journal.change(async () => ({
      value: "changed",
      entry: entry("change"),
      committed: () => {
        state = "new";
      },
    })),
    journal.record(entry("after"), ask),
  ]);
  expect(results).toEqual([true, "changed", false]);
  expect(seen).toEqual(["old", "new"]);
  expect((await notes()).slice(-2)).toEqual(["before", "change"]);
});

test("the journal rolls back a change that throws, and continues", async () => {
  const { seq } = journal.head();
  const failing = journal.change(async (client) => {
    await client.query("insert into tenants values ('half', 'kek-1', '\\x00', now())");
    throw new Error("no");
  });
  await expect(failing).rejects.toMatchObject({ code: "audit_unavailable" });
  expect(await home.sql("select from tenants where tenant = 'half'")).toEqual([]);
  expect(journal.head().seq).toBe(seq);
  await journal.record(entry("next"));
  expect((await notes()).at(-1)).toBe("next");
});

test("after a lost connection, the journal reconnects or rejects with audit_unavailable, and calls `reopened`", async () => {
  const before = reopened;
  await endWriters();
  await journal
    .record(entry("x"))
    .catch((error: unknown) => expect(error).toMatchObject({ code: "audit_unavailable" }));
  await journal.record(entry("back"));
  expect(reopened).toBe(before + 1);
  expect((await notes()).at(-1)).toBe("back");
  expect((await verifyChain(database, token)).intact).toBe(true);
});

test("the journal keeps every acknowledged record if it loses its connection under load", async () => {
  const acknowledged: string[] = [];
  const load = Array.from({ length: 40 }, async (_, writer) => {
    for (let round = 0; round < 10; round += 1) {
      const note = `load-${writer}-${round}`;
      await journal.record(entry(note)).then(
        () => acknowledged.push(note),
        (error: unknown) => expect(error).toMatchObject({ code: "audit_unavailable" }),
      );
    }
  });
  await sleep(5);
  await endWriters();
  await Promise.all(load);
  const written = new Set(await notes());
  expect(acknowledged.length).toBeGreaterThan(0);
  expect(acknowledged.filter((note) => !written.has(note))).toEqual([]);
  expect((await verifyChain(database, token)).intact).toBe(true);
});

test("the journal refuses a second writer of the same database", async () => {
  await expect(open()).rejects.toThrow(/Another vault process/);
});

test("the database rejects updates, deletions and truncation of audit records", async () => {
  for (const sql of ["update audit set outcome = 'granted'", "delete from audit", "truncate audit"]) {
    await expect(home.sql(sql)).rejects.toThrow(/append-only/);
  }
});

test("verifyChain names the first altered record, for every column", async () => {
  await Promise.all(
    ["t1", "t2", "t3"].map((note) =>
      journal.record({ ...entry(note), keyId: "0".repeat(32), purpose: "agent" }),
    ),
  );
  const [row] = await home.sql<{ seq: number }>("select seq::int from audit where detail->>'note' = 't2'");
  const changes = [
    "recorded_at = recorded_at + interval '1 ms'",
    "caller = 'api2'",
    "role = 'admin'",
    "key_id = repeat('1', 32)",
    "key_id = NULL",
    "purpose = 'service'",
    "statement = 'delegation'",
    "digest = decode(repeat('06', 32), 'hex')",
    "digest = NULL",
    "outcome = 'failed'",
    `detail = '{"note": "t9"}'`,
    "recorded_at = 'infinity'",
    "recorded_at = '-infinity', mac = decode(repeat('00', 32), 'hex')",
    "recorded_at = '294276-01-01'",
    "recorded_at = '4713-01-01 BC'",
    `detail = '{"note": "t2", "more": 1e400}'`,
    `detail = '{"note": "t2", "more": 1e400}', mac = decode(repeat('00', 32), 'hex')`,
    `detail = ('{"note": "t2", "more": ' || repeat('[', 100) || repeat(']', 100) || '}')::jsonb`,
    "mac = decode(repeat('00', 32), 'hex')",
  ];
  for (const change of changes) {
    await home.sql("create table kept as select * from audit where detail->>'note' = 't2'");
    await tamper(`update audit set ${change} where detail->>'note' = 't2'`);
    expect(await verifyChain(database, token), change).toEqual({
      intact: false,
      seq: row?.seq,
      reason: "altered",
    });
    await tamper(
      `delete from audit where seq = ${row?.seq}; insert into audit select * from kept; drop table kept`,
    );
  }
  expect((await verifyChain(database, token)).intact).toBe(true);
});

test("verifyChain detects a removed record, two swapped records and an inserted record", async () => {
  const { seq } = journal.head();
  await tamper(
    `create table kept as select * from audit where seq = ${seq - 1}; delete from audit where seq = ${seq - 1}`,
  );
  expect(await verifyChain(database, token)).toEqual({ intact: false, seq: seq - 1, reason: "missing" });
  await tamper("insert into audit select * from kept; drop table kept");

  const swap = `update audit set seq = case seq when ${seq} then ${seq - 1} + 1000000 else ${seq} + 1000000 end where seq in (${seq}, ${seq - 1}); update audit set seq = seq - 1000000 where seq > 1000000`;
  await tamper(swap);
  expect(await verifyChain(database, token)).toEqual({ intact: false, seq: seq - 1, reason: "altered" });
  await tamper(swap);

  await tamper(
    `insert into audit select ${seq + 1}, recorded_at, caller, role, key_id, purpose, statement, digest, outcome, detail, mac from audit where seq = ${seq}`,
  );
  expect(await verifyChain(database, token)).toEqual({ intact: false, seq: seq + 1, reason: "altered" });
  await tamper(`delete from audit where seq = ${seq + 1}`);
  expect((await verifyChain(database, token)).intact).toBe(true);
});

test("verifyChain detects missing last records if it is given the head that the chain had before", async () => {
  await journal.record(entry("noted"));
  const noted = journal.head();
  await journal.close();
  await takeOut(noted.seq);
  expect((await verifyChain(database, token)).intact).toBe(true);
  expect(await verifyChain(database, token, [noted])).toEqual({
    intact: false,
    seq: noted.seq,
    reason: "cut",
  });
  await putBack();
  expect(await verifyChain(database, token, [noted])).toEqual({ intact: true, head: noted });
  const other = { seq: noted.seq, mac: Buffer.alloc(32, 1) };
  for (const heads of [
    [noted, other],
    [other, noted],
  ]) {
    expect(await verifyChain(database, token, heads), "each head counts, also of one record").toEqual({
      intact: false,
      seq: noted.seq,
      reason: "altered",
    });
  }
});

test("the journal writes nothing while its database is set back to an earlier state", async () => {
  await journal.record(entry("lost by a failover"));
  const { seq } = journal.head();
  await takeOut(seq);
  await endWriters();
  await sleep(50);
  for (let attempt = 0; attempt < 3; attempt += 1) {
    await expect(journal.record(entry("never"))).rejects.toMatchObject({ code: "audit_unavailable" });
  }
  await putBack();
  await journal.record(entry("again"));
  expect((await notes()).at(-1)).toBe("again");
});

test.each(["record", "change"] as const)(
  "a connected journal writes no %s and logs a mismatch after the chain's last record was removed",
  async (kind) => {
    await journal.close();
    const told: unknown[] = [];
    const log = Object.assign(Object.create(SILENT), { error: (line: unknown) => told.push(line) });
    journal = await open({ log });
    await journal.record(entry("taken out"));
    const { seq } = journal.head();
    await takeOut(seq);
    for (let attempt = 0; attempt < 3; attempt += 1) {
      const writing =
        kind === "record"
          ? journal.record(entry("never"))
          : journal.change(async (client) => {
              await client.query("insert into tenants values ('never', 'kek-1', '\\x00', now())");
              return { value: undefined, entry: entry("never") };
            });
      await expect(writing).rejects.toMatchObject({ code: "audit_unavailable" });
      if (attempt === 0) expect(told).toEqual([expect.objectContaining({ event: "audit_mismatch" })]);
    }
    await putBack();
    await journal.record(entry("again"));
    expect((await notes()).slice(-2)).toEqual(["taken out", "again"]);
    expect(await home.sql("select from tenants where tenant = 'never'")).toEqual([]);
    expect((await verifyChain(database, token)).intact).toBe(true);
  },
);

test.each([
  "recorded_at = 'infinity'",
  `detail = '{"note": "strange", "more": 1e400}'`,
  `detail = '{"note": "strange", "more": 1e400}', mac = decode(repeat('00', 32), 'hex')`,
  "outcome = 'failed'",
])("the journal does not open after the last record was altered by `update audit set %s`", async (change) => {
  await journal.record(entry("strange"));
  await journal.close();
  const { seq } = journal.head();
  await tamper(`create table kept as select * from audit where seq = ${seq};
                update audit set ${change} where seq = ${seq}`);
  await expect(open()).rejects.toThrow(/does not verify/);
  await putBack();
});

test("the journal does not open a chain that lost its last records and was continued by a second vault", async () => {
  await journal.record(entry("noted"));
  const noted = journal.head();
  await journal.close();
  await takeOut(noted.seq);
  const another = await openForgetful();
  await another.record(entry("in its place"));
  await another.close();
  await expect(open()).rejects.toThrow(/is not the one that the token has noted/);
  expect((await verifyChain(database, token)).intact).toBe(true);
  const found = { intact: false, seq: noted.seq, reason: "altered" };
  expect(await verifyChain(database, token, [noted])).toEqual(found);
  const earlier = { ...noted, seq: noted.seq - 1 };
  expect(await verifyChain(database, token, [noted, earlier])).toMatchObject({ seq: noted.seq - 1 });
  await putBack();
});

test("the journal writes nothing after a second vault replaced the chain's last record", async () => {
  await journal.record(entry("mine"));
  const { seq } = journal.head();
  await endWriters();
  await takeOut(seq);
  const another = await openForgetful();
  await another.record(entry("theirs"));
  await another.close();
  for (let attempt = 0; attempt < 3; attempt += 1) {
    await expect(journal.record(entry("never"))).rejects.toMatchObject({ code: "audit_unavailable" });
  }
  await putBack();
  await journal.record(entry("again"));
  expect((await notes()).slice(-2)).toEqual(["mine", "again"]);
});

test("the journal waits for the disk, whatever the database's synchronous_commit setting is", async () => {
  await journal.close();
  const [row] = await home.sql<{ name: string }>("select current_database() as name");
  await home.sql(`alter database "${row!.name}" set synchronous_commit = off`);
  journal = await open();
  const setting = await journal.change(async (client) => ({
    value: (await client.query<{ synchronous_commit: string }>("SHOW synchronous_commit")).rows[0],
  }));
  expect(setting).toEqual({ synchronous_commit: "on" });
  await home.sql(`alter database "${row!.name}" RESET synchronous_commit`);
});

test("a record in the journal waits for at most one change, and a change waits for at most one batch of records", async () => {
  const order: string[] = [];
  const change = (name: string, meanwhile = () => {}) =>
    journal.change(async () => {
      order.push(name);
      meanwhile();
      return { value: undefined, entry: entry(name) };
    });
  const record = (name: string) => journal.record(entry(name)).then(() => order.push(name));
  const later: Promise<unknown>[] = [];
  const changes = [
    change("first"),
    change("second", () => later.push(record("c"), change("fourth"))),
    change("third"),
  ];
  await Promise.all([...changes, record("a"), record("b")]);
  await Promise.all(later);
  expect(order).toEqual(["first", "a", "b", "second", "c", "third", "fourth"]);
  expect((await notes()).slice(-7)).toEqual(order);
});

test("the journal rolls back a change if the token does not chain the change's record", async () => {
  await journal.close();
  let away = true;
  const chain: Token["chain"] = async (previous, texts) => {
    if (away && texts.length > 0 && Buffer.from(texts[0]!).includes("half")) {
      throw new VaultError("token_unavailable");
    }
    return token.chain(previous, texts);
  };
  journal = await open({ token: { ...token, chain } });
  const half = journal.change(async (client) => {
    await client.query("insert into tenants values ('left', 'kek-1', '\\x00', now())");
    return { value: undefined, entry: entry("half") };
  });
  await expect(half).rejects.toMatchObject({ code: "token_unavailable" });
  away = false;
  await journal.change(async () => ({ value: undefined, entry: entry("whole") }));
  expect(await home.sql("select from tenants where tenant = 'left'")).toEqual([]);
  expect((await notes()).at(-1)).toBe("whole");
});

test("the journal rejects with the VaultError that a change threw", async () => {
  const failing = journal.change(async () => {
    throw new VaultError("key_damaged");
  });
  await expect(failing).rejects.toMatchObject({ code: "key_damaged" });
});
