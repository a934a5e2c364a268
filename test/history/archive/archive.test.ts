import { hash } from "node:crypto";
import { appendFile, chmod, mkdir, readdir, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { addSeconds } from "../../../src/clock.ts";
import { archivedTables, MANIFEST } from "../../../src/history/archive/form.ts";
import { createHistoryCommands } from "../../../src/history/archive/history_command.ts";
import { insertRecords, type Records } from "../../proofs/records.ts";
import { archiveWorld, type Ended, forge, manifestIn, rowsOf } from "./archive_world.ts";

const world = archiveWorld();
const january = new Date("2026-01-01T00:00:00.000Z");
const february = new Date("2026-02-01T00:00:00.000Z");
let records: Records;
let other: Records;
const ids: string[] = [];

beforeAll(async () => {
  records = await insertRecords(world.db, 1_000_000);
  other = await insertRecords(world.db, 1_000_000);
  for (const at of [january, addSeconds(january, 0.5), addSeconds(february, -0.001)]) {
    ids.push(await world.decide(records, at));
  }
  ids.push(
    await world.decide(other, addSeconds(january, 7), {
      ...({ decision: "deny", reason: "not_delegated" } as const),
      explanation: '{"limit":{"scope":"data:read"}}',
    }),
  );
  ids.push(
    await world.decide(other, addSeconds(january, 9), {
      rootAccountId: records.accountId,
      humanId: records.humanId,
    }),
  );
  await world.report(records, ids[0] ?? "", january);
  for (const at of [addSeconds(january, -0.001), february]) await world.decide(records, at);
  await world.db("audit_events").insert({
    account_id: records.accountId,
    occurred_at: addSeconds(january, 60),
    event_id: crypto.randomUUID(),
    event_type: "proof.presented",
    connection_id: records.connectionId,
    agent_id: records.agentId,
  });
});

const archive = (month: string, to: string) => world.call((commands) => commands.archive({ month, to }));
const check = (from: string) => world.call((commands) => commands.check({ from }));
const notes = () => world.db("history_archives").orderBy("archived_at");

test("an archive contains exactly the rows of its month, with one file for each table", async () => {
  const folder = await world.archive("2026-01");
  const events = await rowsOf(folder, "audit_events");
  // The fifth decision is in the histories of two accounts.
  expect(events.map((row) => row.event_id).sort()).toEqual([...ids, ids[4]].sort());
  const { rows } = await world.pool.query(
    `select * from audit_events where occurred_at >= $1 and occurred_at < $2 and decision is not null
     order by account_id, occurred_at, event_id`,
    [january, february],
  );
  expect(events).toEqual(
    rows.map((row) => ({
      ...row,
      occurred_at: events.find(({ event_id }) => event_id === row.event_id)?.occurred_at,
      receipt_hash: row.receipt_hash && `\\x${row.receipt_hash.toString("hex")}`,
    })),
  );
  expect(events.map((row) => new Date(String(row.occurred_at)))).toEqual(rows.map((row) => row.occurred_at));
  expect(await rowsOf(folder, "outcomes")).toMatchObject([
    {
      event_id: ids[0],
      outcome: "executed",
      detail: 'línea\u2028\n"x"',
      occurred_at: "2026-01-01T00:00:01+00:00",
    },
  ]);
  expect(await rowsOf(folder, "ledger_postings")).toHaveLength(5);
  expect((await manifestIn(folder)).files[0]).toMatchObject({
    rows: 6,
    first: "2026-01-01T00:00:00+00:00",
    last: "2026-01-31T23:59:59.999+00:00",
    sha256: hash("sha256", await readFile(join(folder, "audit_events.ndjson.gz")), "hex"),
  });
});

test("Postgres reads every archived row back unchanged", async () => {
  const folder = await world.archive("2026-01");
  for (const { table, column, key, only = "true" } of archivedTables) {
    const { rows } = await world.pool.query(
      `select r.* from unnest($1::jsonb[]) line, jsonb_populate_record(null::${table}, line) r`,
      [(await rowsOf(folder, table)).map((row) => JSON.stringify(row))],
    );
    const kept = await world.pool.query(
      `select * from ${table} where ${column} >= $1 and ${column} < $2 and ${only} order by ${key.join()}`,
      [january, february],
    );
    expect(rows).toEqual(kept.rows);
    expect(rows.length).toBeGreaterThan(0);
  }
});

test("an archive contains every column of its tables", async () => {
  for (const { table, columns } of archivedTables) {
    const { rows } = await world.pool.query(
      "select column_name as name from information_schema.columns where table_name = $1",
      [table],
    );
    expect(rows.map(({ name }) => name).sort()).toEqual([...columns].sort());
  }
});

test("only the owner of an archive can read it, and no unfinished file remains", async () => {
  const folder = await world.archive("2026-01");
  expect((await readdir(folder)).sort()).toEqual(
    [...archivedTables.map(({ file }) => file), MANIFEST].sort(),
  );
  for (const name of await readdir(folder)) expect((await stat(join(folder, name))).mode & 0o777).toBe(0o600);
  expect((await stat(folder)).mode & 0o777).toBe(0o700);
});

test("archiving a month records the manifest's hash and the row counts once, even if repeated", async () => {
  await world.db("history_archives").delete();
  const to = await world.folder();
  const first = await archive("2026-01", to);
  const bytes = await readFile(join(to, "2026-01", MANIFEST));
  expect(first).toMatchObject({ status: 0, err: "" });
  expect(first.out).toContain(`sha256:${hash("sha256", bytes, "hex")}`);
  const again = await archive("2026-01", to);
  expect(again).toMatchObject({ status: 0, err: "" });
  expect(again.out).toMatch(/^Was archived before, and is whole: 2026-01/);
  expect(await readFile(join(to, "2026-01", MANIFEST))).toEqual(bytes);
  expect(await notes()).toEqual([
    {
      starts_at: january,
      ends_at: february,
      manifest_hash: hash("sha256", bytes, "buffer"),
      row_counts: { audit_events: 6, outcomes: 1, ledger_postings: 5 },
      archived_at: world.clock.now(),
      dropped_at: null,
    },
  ]);
  const elsewhere = await world.archive("2026-01");
  expect(await readFile(join(elsewhere, MANIFEST))).toEqual(bytes);
});

test("a month without rows can be archived, so that it can be dropped", async () => {
  const folder = await world.archive("2025-06");
  expect((await manifestIn(folder)).files.map(({ rows, first }) => [rows, first])).toEqual([
    [0, null],
    [0, null],
    [0, null],
  ]);
});

test("the archive command refuses a month until an hour after its end", async () => {
  const to = await world.folder();
  world.clock.set(new Date("2026-03-01T00:59:59.999Z"));
  const early = await archive("2026-02", to);
  expect(early).toMatchObject({ status: 1, out: "" });
  expect(early.err).toContain("archive it at 2026-03-01T01:00:00.000Z or later");
  expect(await readdir(to)).toEqual([]);
  world.clock.set(new Date("2026-03-01T01:00:00.000Z"));
  expect(await archive("2026-02", to)).toMatchObject({ status: 0 });
  world.clock.set(new Date("2026-04-10T00:00:00.000Z"));
});

test.each(["2026-13", "2026-00", "2026-1", "0000-01", "january", "2026-01-01"])(
  "the archive command rejects %s as a month",
  async (month) => {
    expect(await archive(month, "/nowhere")).toMatchObject({ status: 2, out: "" });
  },
);

test("the archive command never replaces an existing archive of the month that has different content", async () => {
  const to = await world.folder();
  await archive("2026-02", to);
  const before = await readFile(join(to, "2026-02", MANIFEST));
  const at = addSeconds(february, 5);
  const late = await world.decide(records, at);
  const noted = await notes();
  expect(await archive("2026-02", to)).toMatchObject({
    status: 1,
    err: expect.stringContaining("give another folder"),
  });
  expect(await readFile(join(to, "2026-02", MANIFEST))).toEqual(before);
  expect(await readdir(join(to, "2026-02"))).toHaveLength(4);
  expect(await notes()).toEqual(noted);
  expect(await check(join(to, "2026-02"))).toMatchObject({ status: 0 });
  await world.db("audit_events").where({ event_id: late }).delete();
  await world.db("ledger_postings").where({ account_id: records.accountId, posted_at: at }).delete();
});

test("the next run completes the files of a killed run, which have no manifest", async () => {
  const to = await world.folder();
  await archive("2026-01", to);
  const folder = join(to, "2026-01");
  const whole = await readFile(join(folder, MANIFEST));
  await rm(join(folder, MANIFEST));
  await writeFile(join(folder, `${MANIFEST}.unfinished`), "{");
  await writeFile(join(folder, "outcomes.ndjson.gz.unfinished"), "x".repeat(10_000));
  expect(await check(folder)).toMatchObject({
    status: 1,
    err: expect.stringContaining("has no manifest.json"),
  });
  expect(await archive("2026-01", to)).toMatchObject({ status: 0 });
  expect(await readFile(join(folder, MANIFEST))).toEqual(whole);
  expect(await readdir(folder)).toHaveLength(4);
});

test("the manifest appears only after all other files", async () => {
  const to = await world.folder();
  const folder = join(to, "2026-01");
  const last = archivedTables.at(-1)?.file ?? "";
  await mkdir(join(folder, last, "in the way"), { recursive: true });
  expect(await archive("2026-01", to)).toMatchObject({
    status: 3,
    err: expect.stringMatching(/^deputize history: the folder could not be used \((EISDIR|ENOTEMPTY)\)\n$/),
  });
  expect(await readdir(folder)).not.toContain(MANIFEST);
  await rm(join(folder, last), { recursive: true });
  expect(await archive("2026-01", to)).toMatchObject({ status: 0 });
});

test("the archive command does not record an archive that is damaged when it is read back", async () => {
  const to = await world.folder();
  await archive("2026-01", to);
  await world.db("history_archives").delete();
  await appendFile(join(to, "2026-01", "outcomes.ndjson.gz"), "x");
  expect(await archive("2026-01", to)).toMatchObject({ status: 1 });
  expect(await notes()).toEqual([]);
});

test("the archive command reports an unusable folder, and the report contains no secret", async () => {
  const file = join(await world.folder(), "file");
  await writeFile(file, "");
  expect(await archive("2026-01", file)).toMatchObject({
    status: 3,
    err: expect.stringMatching(/^deputize history: the folder could not be used \((ENOTDIR|EEXIST)\)\n$/),
  });
  const to = await world.folder();
  if (process.getuid?.() !== 0) {
    await chmod(to, 0o500);
    expect(await archive("2026-01", to)).toMatchObject({ status: 3 });
  }
});

test("the archive command needs only a database role that may read the tables and insert archive records", async () => {
  const role = `archivist_${hash("sha256", world.url(), "hex").slice(0, 12)}`;
  await world.pool.query(
    `create role ${role} login password 'secret-of-archivist';
     grant select on audit_events, outcomes, ledger_postings, schema_migrations, history_archives to ${role}`,
  );
  const url = new URL(world.url());
  [url.username, url.password] = [role, "secret-of-archivist"];
  const said: string[] = [];
  const err = { write: (text: string) => said.push(text) };
  const commands = createHistoryCommands({
    url: () => url.href,
    clock: world.clock,
    out: { write() {} },
    err,
  });
  const to = await world.folder();
  expect(await commands.archive({ month: "2026-01", to })).toBe(3);
  expect(said).toEqual([
    "deputize history: the database could not be used (permission denied for table history_archives)\n",
  ]);
  await world.pool.query(`grant insert on history_archives to ${role}`);
  expect(await commands.archive({ month: "2026-01", to })).toBe(0);
  await world.pool.query(`drop owned by ${role}; drop role ${role}`);
});

test("two concurrent runs leave one complete archive", async () => {
  const to = await world.folder();
  const ended = await Promise.all([archive("2026-01", to), archive("2026-01", to)]);
  for (const { status, err } of ended) expect(status === 0 || err.includes("Another run")).toBe(true);
  expect(await check(join(to, "2026-01"))).toMatchObject({ status: 0 });
  expect(await readdir(join(to, "2026-01"))).toHaveLength(4);
});

describe("the check of an archive", () => {
  let folder: string;
  const refusal = async (): Promise<string> => {
    const ended: Ended = await check(folder);
    expect(ended).toMatchObject({ status: 1, out: "" });
    expect(ended.err).toContain(". Use a copy of the archive, or archive the month into another folder");
    return ended.err;
  };
  const events = (change: (rows: Record<string, unknown>[]) => Record<string, unknown>[]) =>
    forge(folder, "audit_events", change);
  const first = (change: Record<string, unknown>) =>
    events(([row, ...rows]) => [{ ...row, ...change }, ...rows]);

  beforeAll(async () => {
    folder = await world.archive("2026-01");
  });

  test("counts the receipts of a complete archive without a database", async () => {
    const ended = await check(folder);
    expect(ended).toMatchObject({ status: 0, err: "" });
    expect(ended.out).toMatch(/^Whole: 2026-01 in .*\naudit_events {5}6 rows in \d+ bytes\n/);
    expect(ended.out).toContain("Receipts         5, each with its hash");
  });

  test.each([
    ["an extra byte", () => appendFile(join(folder, "outcomes.ndjson.gz"), "\0"), /outcomes.*damaged/],
    [
      "a file cut off",
      () => truncate(join(folder, "outcomes.ndjson.gz"), 20),
      /outcomes.*cut off or damaged/,
    ],
    ["a missing file", () => rm(join(folder, "outcomes.ndjson.gz")), /outcomes.ndjson.gz is missing/],
    ["a missing row", () => events((rows) => rows.slice(0, -1)), /says|has \d+ rows/],
    ["a repeated row", () => events((rows) => [...rows, rows.at(-1) ?? {}]), /line 7: occurs twice/],
    ["rows in another order", () => events((rows) => rows.toReversed()), /out of order/],
    [
      "a changed receipt",
      () => first({ receipt: '{"version":1}' }),
      /line 1: its receipt does not match its hash/,
    ],
    ["a removed receipt", () => first({ receipt: null, receipt_hash: null }), /without a receipt/],
    [
      "a receipt of another decision",
      () => first({ decision: "indeterminate" }),
      /line 1: its receipt belongs to another decision/,
    ],
    [
      "a row of another month",
      () => first({ occurred_at: "2025-12-31T23:59:59.999+00:00" }),
      /line 1: belongs to another month/,
    ],
    ["an extra column", () => first({ more: 1 }), /line 1: is not a row/],
  ])("finds %s", async (_, change, said) => {
    folder = await world.archive("2026-01");
    await change();
    expect(await refusal()).toMatch(said);
  });

  test("accepts an archive of the former format, whose rows have no explanation", async () => {
    folder = await world.archive("2026-01");
    await events((rows) => rows.map(({ explanation: _, ...row }) => row));
    expect(await refusal()).toMatch(/line 1: is not a row/);
    const text = await readFile(join(folder, MANIFEST), "utf8");
    await writeFile(join(folder, MANIFEST), text.replace('"form": 2', '"form": 1'));
    expect(await check(folder)).toMatchObject({ status: 0, err: "" });
  });

  test("finds a manifest with a wrong number of rows, a wrong time or an unknown format", async () => {
    for (const [from, to] of [
      ['"rows": 6', '"rows": 5'],
      ["23:59:59.999", "23:59:59.998"],
      ['"form": 2', '"form": 3'],
      ['"form": 2', '"form": 0'],
      ['"form": 2', '"form": 1'],
      ['"month": "2026-01"', '"month": "2026-02"'],
    ] as const) {
      folder = await world.archive("2026-01");
      const text = await readFile(join(folder, MANIFEST), "utf8");
      expect(text).toContain(from);
      await writeFile(join(folder, MANIFEST), text.replace(from, to));
      await refusal();
    }
  });
});
