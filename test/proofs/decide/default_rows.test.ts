import { randomBytes, randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { addSeconds } from "../../../src/clock.ts";
import { monthOf } from "../../../src/db/months.ts";
import { mendDefaultPartitions } from "../../../src/proofs/decide/default_rows.ts";
import { maintainPartitions } from "../../../src/proofs/decide/partitions.ts";
import { until } from "../../support/process.ts";
import { decisionWorld } from "../decision_world.ts";
import { insertRecords, itemFor } from "../records.ts";

const world = decisionWorld();
/** A month after all rows in the former ledger's partition, whenever the test runs. */
const first = monthOf(new Date(), 14);
const ledgers = ["audit_events", "outcomes", "ledger_postings"];

type Line = {
  level: "info" | "warn";
  table: string;
  month: string;
  rows: number;
  text: string;
  err?: unknown;
};

async function mend(now: Date, options: { budgetMs?: number } = {}): Promise<Line[]> {
  const lines: Line[] = [];
  const write = (level: Line["level"]) => (about: object, text: string) =>
    void lines.push({ level, text, ...(about as Pick<Line, "table" | "month" | "rows">) });
  const log = { info: write("info"), warn: write("warn") } as never;
  await mendDefaultPartitions({ pool: world.months, now, log, ...options });
  return lines;
}

async function decide(records: Awaited<ReturnType<typeof insertRecords>>, decidedAt: Date) {
  const item = itemFor(records, { decidedAt });
  expect(await world.decideOne(item)).toMatchObject({ kind: "decided" });
  await world.db("outcomes").insert({
    account_id: records.accountId,
    decided_at: decidedAt,
    event_id: item.eventId,
    outcome: "executed",
    occurred_at: decidedAt,
    recorded_at: decidedAt,
  });
}

async function placesOf(table: string): Promise<Record<string, number>> {
  const { rows } = await world.pool.query<{ name: string; rows: number }>(
    `select tableoid::regclass::text as name, count(*) as rows from ${table} group by 1 order by 1`,
  );
  return Object.fromEntries(rows.map(({ name, rows }) => [name, rows]));
}

const allOf = async (table: string) =>
  (await world.pool.query(`select * from ${table} order by 1, 2, 3`)).rows;

const suffix = (later: number) => monthOf(first.from, later).name.replace("-", "_");

test("mendDefaultPartitions moves all rows of a default partition to the partitions of their months, and logs each month", async () => {
  const records = await insertRecords(world.db, 1_000_000);
  const times = [first.from, addSeconds(first.to, -0.001), first.to, addSeconds(first.to, 3_600)];
  for (const time of times) await decide(records, time);
  const before = await Promise.all(ledgers.map(allOf));
  for (const table of ledgers) expect(await placesOf(table)).toEqual({ [`${table}_other`]: 4 });

  const lines = await mend(addSeconds(first.to, 3_600));
  expect(lines.map(({ level, table, month, rows }) => [level, table, month, rows])).toEqual(
    ledgers.flatMap((table) =>
      [first.name, monthOf(first.to).name].flatMap((month) => [
        ["warn", table, month, 2],
        ["info", table, month, 2],
      ]),
    ),
  );
  for (const table of ledgers) {
    expect(await placesOf(table)).toEqual({ [`${table}_${suffix(0)}`]: 2, [`${table}_${suffix(1)}`]: 2 });
  }
  expect(await Promise.all(ledgers.map(allOf))).toEqual(before);
  expect(await mend(addSeconds(first.to, 3_600))).toEqual([]);
});

test("mendDefaultPartitions creates partitions that accept new rows and have the same keys, checks and indexes as other partitions", async () => {
  const indexes = async (table: string) =>
    (
      await world.pool.query<{ on: string }>(
        `select regexp_replace(indexdef, '^.* USING', '') as on from pg_indexes where tablename = $1 order by 1`,
        [table],
      )
    ).rows;
  await maintainPartitions(world.pool, addSeconds(first.to, 40 * 86_400));
  for (const table of ["audit_events", "outcomes"]) {
    expect(await indexes(`${table}_${suffix(0)}`)).toEqual(await indexes(`${table}_${suffix(2)}`));
    expect((await indexes(`${table}_${suffix(0)}`)).length).toBeGreaterThan(0);
  }
  const [posting] = await world.db("ledger_postings").limit(1);
  if (posting === undefined) throw new Error("there is no posting");
  await expect(world.db("ledger_postings").insert(posting)).rejects.toMatchObject({ code: "23505" });
  const late = { ...posting, posting_id: randomBytes(32) };
  await world.db("ledger_postings").insert(late);
  expect((await placesOf("ledger_postings"))[`ledger_postings_${suffix(0)}`]).toBe(3);
  await world.db("ledger_postings").where({ posting_id: late.posting_id }).delete();
});

test("mendDefaultPartitions keeps a grant's reference to its posting when it moves a month", async () => {
  const { accountId } = await insertRecords(world.db, 0);
  const at = monthOf(first.from, 4).from;
  const grant = {
    account_id: accountId,
    posted_at: at,
    posting_id: randomBytes(32),
    amount_micro_usd: 5_000_000,
  };
  await world.db.transaction(async (tx) => {
    await tx("credit_grants").insert({ ...grant, reference: "inv-1", reason: "paid" });
    await tx("ledger_postings").insert({
      ...grant,
      kind: "grant",
      debit_book: "grants",
      credit_book: "credit",
    });
  });
  expect((await mend(at)).map(({ level }) => level)).toEqual(["warn", "info"]);
  expect((await placesOf("ledger_postings"))[`ledger_postings_${suffix(4)}`]).toBe(1);
  await expect(world.db("ledger_postings").where(grant).delete()).rejects.toMatchObject({ code: "23503" });
  const other = { ...grant, posting_id: randomBytes(32), reference: "inv-2", reason: "paid" };
  await expect(world.db("credit_grants").insert(other)).rejects.toMatchObject({ code: "23503" });
});

test("mendDefaultPartitions lets decisions continue, loses none of them, and shows each exactly once at all times", async () => {
  const records = await insertRecords(world.db, 1_000_000_000);
  const start = monthOf(first.from, 5).from;
  let decided = 0;
  let going = true;
  const deciding = (async () => {
    while (going) {
      await decide(records, addSeconds(start, decided));
      decided += 1;
    }
  })();
  const counts: string[] = [];
  const looking = (async () => {
    while (going) {
      const least = decided;
      const seen = await world.countOf("audit_events", records);
      if (seen < least || seen > decided + 1) counts.push(`${least} decided, ${seen} seen`);
    }
  })();
  await until("some were decided", () => decided > 200);
  // Half of the rows are closed and copied in advance. The other half is copied under the lock.
  const lines = await mend(addSeconds(start, 700));
  expect(lines.filter(({ level }) => level === "info")).toHaveLength(3);
  const then = decided;
  await until("more were decided", () => decided > then + 20);
  going = false;
  await Promise.all([deciding, looking]);
  expect(counts).toEqual([]);
  for (const table of ledgers) {
    const own = (await placesOf(table))[`${table}_${suffix(5)}`];
    expect(own).toBe(decided);
  }
});

test("mendDefaultPartitions gives up on a table in use after half a second, and moves its rows once it is free", async () => {
  const records = await insertRecords(world.db, 1_000_000);
  const time = monthOf(first.from, 7).from;
  await decide(records, time);
  const held = await world.hold("select from audit_events where account_id = $1", [records.accountId]);
  const begun = performance.now();
  const lines = await mend(addSeconds(time, 3_600));
  expect(performance.now() - begun).toBeLessThan(5_000);
  expect(lines.find(({ table, text }) => table === "audit_events" && text.includes("stay"))).toMatchObject({
    level: "warn",
  });
  expect((await placesOf("audit_events")).audit_events_other).toBe(1);
  expect((await placesOf("outcomes"))[`outcomes_${suffix(7)}`]).toBe(1);
  await held.commit();
  await mend(addSeconds(time, 3_600));
  expect((await placesOf("audit_events"))[`audit_events_${suffix(7)}`]).toBe(1);
});

test("mendDefaultPartitions does not move or duplicate rows that cannot be moved within the budget", async () => {
  const time = monthOf(first.from, 9).from;
  const account = randomUUID();
  await world.pool.query(
    `insert into audit_events (account_id, occurred_at, event_id, event_type, connection_id, agent_id, decision)
     select $1, $2::timestamptz + n * interval '1 second', gen_random_uuid(), 'proof.verified', $1, 'a', 'allow'
     from generate_series(1, 20000) n`,
    [account, time],
  );
  const lines = await mend(addSeconds(time, 86_400), { budgetMs: 2 });
  expect(lines.map(({ level }) => level)).toEqual(["warn", "warn"]);
  expect(await world.countOf("audit_events", { accountId: account })).toBe(20_000);
  await mend(addSeconds(time, 86_400));
  expect((await placesOf("audit_events"))[`audit_events_${suffix(9)}`]).toBe(20_000);
  expect(await world.countOf("audit_events", { accountId: account })).toBe(20_000);
});

test("mendDefaultPartitions does not touch a table that has the name of a partition but is not a partition", async () => {
  const records = await insertRecords(world.db, 1_000_000);
  const time = monthOf(first.from, 11).from;
  const name = `audit_events_${suffix(11)}`;
  await world.pool.query(`create table ${name} (kept text); insert into ${name} values ('by somebody')`);
  await decide(records, time);
  const lines = await mend(addSeconds(time, 3_600));
  expect(lines.filter(({ text }) => text.includes("stay"))).toMatchObject([
    { table: "audit_events", err: { code: "42P07" } },
  ]);
  expect((await world.pool.query(`select * from ${name}`)).rows).toEqual([{ kept: "by somebody" }]);
  expect((await placesOf("audit_events")).audit_events_other).toBe(1);
});
