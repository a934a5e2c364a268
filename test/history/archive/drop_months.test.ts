import { hash, randomUUID } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import { reconcileLedger } from "../../../src/accounts/ledger/reconcile.ts";
import { addSeconds } from "../../../src/clock.ts";
import { dropOldMonths } from "../../../src/history/archive/drop_months.ts";
import { receiptCheckRoute, receiptRoute } from "../../../src/history/receipt_routes.ts";
import { exportRoute } from "../../../src/history/routes.ts";
import { createRecordedFinder } from "../../../src/proofs/admission/repeats.ts";
import { maintainPartitions } from "../../../src/proofs/decide/partitions.ts";
import { insertRecords, type Records } from "../../proofs/records.ts";
import { archiveWorld } from "./archive_world.ts";

const world = archiveWorld();
const [january, february, march, april] = [0, 1, 2, 3].map((month) => new Date(Date.UTC(2026, month))) as [
  Date,
  Date,
  Date,
  Date,
];
/** The first moment at which a retention of two months no longer keeps January. */
const due = april;
let records: Records;
let ids: string[];

type Line = { level: "info" | "warn"; month: string; reason?: string };

async function drop(now = due, retentionMonths: number | null = 2): Promise<Line[]> {
  const lines: Line[] = [];
  const write = (level: Line["level"]) => (about: object) => void lines.push({ ...(about as Line), level });
  const log = { info: write("info"), warn: write("warn") } as never;
  await dropOldMonths({ pool: world.months, now, retentionMonths: retentionMonths ?? undefined, log });
  return lines;
}

const months = async () => {
  const { rows } = await world.pool.query<{ name: string }>(
    `select inhrelid::regclass::text as name from pg_inherits
     where inhparent in ('audit_events'::regclass, 'outcomes'::regclass) order by 1`,
  );
  return rows.map(({ name }) => name);
};
const ALL = ["audit_events", "outcomes"].flatMap((table) =>
  ["2026_01", "2026_02", "2026_03", "2026_04", "other"].map((month) => `${table}_${month}`),
);
const without = (...gone: string[]) => ALL.filter((name) => !gone.some((month) => name.endsWith(month)));
const kept = (reason: RegExp) => [{ level: "warn", month: "2026-01", reason: expect.stringMatching(reason) }];

beforeEach(async () => {
  for (const table of ["history_archives", "invocations", "history_queue", "audit_events", "outcomes"]) {
    await world.pool.query(`delete from ${table}`);
  }
  for (const time of [january, february, march]) await maintainPartitions(world.pool, time);
  records = await insertRecords(world.db, 1_000_000);
  ids = [];
  for (const at of [january, february, march]) ids.push(await world.decide(records, addSeconds(at, 60)));
  await world.report(records, ids[0] ?? "", addSeconds(january, 60));
});

test("no month is dropped if no retention is set", async () => {
  await world.archive("2026-01");
  expect(await drop(new Date("2099-01-01T00:00:00.000Z"), null)).toEqual([]);
  expect(await months()).toEqual(ALL);
});

test("a month is dropped exactly when the retention has passed since its end", async () => {
  await world.archive("2026-01");
  await world.archive("2026-02");
  expect(await drop(addSeconds(due, -0.001))).toEqual([]);
  expect(await months()).toEqual(ALL);
  expect(await drop(due)).toEqual([{ level: "info", month: "2026-01" }]);
  expect(await months()).toEqual(without("2026_01"));
  const [noted] = await world.db("history_archives").orderBy("starts_at");
  expect(noted).toMatchObject({ starts_at: january, dropped_at: due });
  expect(await drop(due)).toEqual([]);
});

test("a month without an archive is kept, and so are all later months", async () => {
  await world.archive("2026-02");
  expect(await drop(new Date("2027-01-01T00:00:00.000Z"))).toEqual(
    kept(/^it is not archived: deputize history archive --month 2026-01 --to <folder>$/),
  );
  expect(await months()).toEqual(ALL);
});

test("an outcome reported after archiving prevents dropping the month until the month is archived again", async () => {
  await world.db("outcomes").delete();
  await world.archive("2026-01");
  await world.report(records, ids[0] ?? "", addSeconds(january, 60));
  expect(await drop()).toEqual(kept(/rows differ from its archive/));
  expect(await months()).toEqual(ALL);
  await world.archive("2026-01");
  expect(await drop()).toEqual([{ level: "info", month: "2026-01" }]);
});

test("a month is kept if its archive lacks a decision", async () => {
  await world.archive("2026-01");
  await world.decide(records, addSeconds(january, 61));
  expect(await drop()).toEqual(kept(/rows differ from its archive/));
});

test.each([
  [
    "an operation that may still be repeated",
    /INVOCATION_DAYS/,
    () =>
      world.db("invocations").insert({
        account_id: records.accountId,
        connection_id: records.connectionId,
        invocation_id: "order-1",
        operation_hash: Buffer.alloc(32),
        event_id: ids[0] ?? "",
        decided_at: addSeconds(february, -0.001),
      }),
  ],
  [
    "a row that Kafka does not contain yet",
    /Kafka/,
    () =>
      world.pool.query("insert into history_queue (account_id, occurred_at, event_id) values ($1, $2, $3)", [
        records.accountId,
        addSeconds(february, -0.001),
        randomUUID(),
      ]),
  ],
  [
    "a row outside the month's partition",
    /have not been moved yet/,
    () => world.report(records, randomUUID(), addSeconds(january, -1)),
  ],
])("%s prevents dropping the month", async (_, reason, add) => {
  await world.archive("2026-01");
  await add();
  expect(await drop()).toEqual(kept(reason));
  expect(await months()).toEqual(ALL);
});

describe("a rate limit of a certificate", () => {
  const rate = (window_s: number, fields: object = {}) =>
    world
      .db("certificates")
      .where({ cert_id: records.certId })
      .update({
        cert_json: JSON.stringify({ constraints: [{ type: "max_rate", count: 1, window_s }] }),
        issued_at: january,
        expires_at: null,
        ...fields,
      });
  const sinceJanuary = (due.getTime() - february.getTime()) / 1_000;

  test("prevents dropping a month within the rate limit's window, but not a month before the window", async () => {
    await world.archive("2026-01");
    await rate(sinceJanuary + 1);
    expect(await drop()).toEqual(kept(/max_rate/));
    await rate(sinceJanuary);
    expect(await drop()).toEqual([{ level: "info", month: "2026-01" }]);
  });

  test.each([
    ["has expired", { expires_at: due }],
    ["was revoked", { status: "revoked" }],
    ["was issued later", { issued_at: february }],
  ])("does not prevent dropping a month if the certificate %s", async (_, fields) => {
    await world.archive("2026-01");
    await rate(1_000_000_000, fields);
    expect(await drop()).toEqual([{ level: "info", month: "2026-01" }]);
  });
});

test("dropping a month blocks nobody for long, and a month in use is dropped later", async () => {
  await world.archive("2026-01");
  const held = await world.hold("select from audit_events where account_id = $1", [records.accountId]);
  const begun = performance.now();
  expect(await drop()).toEqual(kept(/in use/));
  expect(performance.now() - begun).toBeLessThan(2_000);
  expect(await months()).toEqual(ALL);
  expect(await world.db("history_archives").whereNotNull("dropped_at")).toEqual([]);
  await held.commit();
  expect(await drop()).toEqual([{ level: "info", month: "2026-01" }]);
});

test("a month is kept while a database view depends on it, and the log states the reason", async () => {
  await world.archive("2026-01");
  await world.pool.query("create view of_january as select * from audit_events_2026_01");
  expect(await drop()).toEqual(kept(/^it could not be dropped: .*other objects depend on it/));
  expect(await months()).toEqual(ALL);
  expect(await world.db("history_archives").whereNotNull("dropped_at")).toEqual([]);
  await world.pool.query("drop view of_january");
  expect(await drop()).toEqual([{ level: "info", month: "2026-01" }]);
});

describe("after a month was dropped", () => {
  const ask = async (route: object, request: object) => {
    const { handle } = route as { handle(request: object): Promise<{ body: unknown }> };
    return (await handle({ caller: { ...records, connectionId: null }, ...request })).body;
  };

  test("lists end at the oldest kept month, even if the cursor or event to start from was dropped", async () => {
    const page = { limit: 2 };
    const first = await ask(exportRoute(world), { query: page });
    expect(first).toMatchObject({ events: [{ event_id: ids[2] }, { event_id: ids[1] }] });
    const { next_cursor: cursor } = first as { next_cursor: string };
    await world.archive("2026-01");
    await drop();
    expect(await ask(exportRoute(world), { query: { ...page, cursor } })).toEqual({
      events: [],
      next_cursor: null,
    });
    expect(await ask(exportRoute(world), { query: { ...page, before: ids[0] } })).toMatchObject({
      events: [],
    });
    expect(await ask(exportRoute(world), { query: page })).toMatchObject({
      events: [{}, {}],
      next_cursor: null,
    });
  });

  test("its receipts are not found, and the check of a receipt refers to the archive", async () => {
    const receipts = await world.db("audit_events").whereIn("event_id", ids).orderBy("occurred_at");
    const checked = (n: number) =>
      ask(receiptCheckRoute(world), { body: { receipt: JSON.parse(receipts[n]?.receipt ?? "") } });
    expect(await checked(0)).toMatchObject({ genuine: true });
    await world.archive("2026-01");
    await drop();
    await expect(ask(receiptRoute(world), { params: { receipt_id: ids[0] } })).rejects.toMatchObject({
      code: "not_found",
    });
    await expect(checked(0)).rejects.toMatchObject({ code: "invalid_request" });
    expect(await checked(1)).toMatchObject({
      genuine: true,
      receipt_hash: `sha256:${hash("sha256", receipts[1]?.receipt ?? "", "hex")}`,
    });
  });

  test("a repeated call finds no decision of that month", async () => {
    const find = createRecordedFinder(world.db);
    await world.archive("2026-01");
    await drop();
    const { accountId, connectionId } = records;
    expect(await find({ accountId, connectionId } as never, "order-1")).toBeUndefined();
  });

  test("the ledger agrees with all postings, and only charges in kept months need decisions", async () => {
    const differences = async () => {
      const found = await Promise.all(
        [100_000, 1, 2].map((pageRows) => reconcileLedger(world.db, { pageRows })),
      );
      return found.map((each) =>
        each.differences.filter(({ account_id }) => account_id === records.accountId).map(({ kind }) => kind),
      );
    };
    await world.pool.query(
      `insert into ledger_postings values ($1, $2, '\\x01', 'alpha_credit', 'grants', 'credit', 1000000)`,
      [records.accountId, addSeconds(january, 1)],
    );
    const before = await differences();
    await world.archive("2026-01");
    await drop();
    expect(await differences()).toEqual(before);
    expect(before).toEqual([[], [], []]);
    await world.pool.query("delete from audit_events where event_id = $1", [ids[1]]);
    expect(await differences()).toEqual(Array(3).fill(["charge_without_decision"]));
  });
});
