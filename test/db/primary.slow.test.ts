import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { Client } from "pg";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Database, openDatabase, openPool } from "../../src/db/database.ts";
import { isAway } from "../../src/db/errors.ts";
import { type Primary, watchPrimary } from "../../src/db/primary.ts";
import { startPostgres } from "../../src/dev/postgres/postgres.ts";
import { until } from "../support/process.ts";
import { FAILOVERS, type PostgresPair, startPostgresPair } from "../support/surroundings/postgres_pair.ts";
import { startTcpProxy, type TcpProxy } from "../support/surroundings/tcp_proxy.ts";

const NAME = { name: "test", onError: () => {} };
let folder: string;
let pair: PostgresPair;
let proxy: TcpProxy;
let primary: Primary;
const stops: (() => Promise<unknown>)[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-primary-"));
  const dataDir = join(folder, "data");
  await (await startPostgres({ dataDir })).stop();
  pair = await startPostgresPair(dataDir);
  proxy = await startTcpProxy(pair.superuserUrl("postgres"));
  primary = watchPrimary({ url: proxy.url, log: pino({ level: "silent" }) });
  stops.push(
    () => rm(folder, { recursive: true }),
    () => pair.stop(),
    () => proxy.stop(),
    () => primary.stop(),
  );
});

afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

/** Opens a pool whose connections end when another server becomes the primary. */
function open(settings: object = {}): Database {
  const database = openDatabase({ url: proxy.url, opened: primary.opened, ...NAME, ...settings });
  stops.push(() => database.destroy());
  return database;
}

const serverOf = async (database: Database) =>
  String((await database.raw("select inet_server_port() as port")).rows[0].port);

describe.each(FAILOVERS)("after a failover whose old primary is %s", (how) => {
  test("idle and busy connections end, and the next query reaches the new primary", async () => {
    const [idle, busy] = [open({ max: 1 }), open({ max: 1 })];
    const before = await serverOf(idle);
    await serverOf(busy);
    const failed = busy.raw("select pg_sleep(300)").catch((error: unknown) => error);
    const port = await pair.failOver(how);
    proxy.switchTo(port);
    expect(isAway(await failed)).toBe(true);
    const answers = async () => (await serverOf(idle).catch(() => before)) === String(port);
    await until("the idle connection is replaced", answers);
    expect(await serverOf(busy)).toBe(String(port));
    await until("the watch reports it", () => primary.isWritable());
  });
});

describe("an isolated primary, whose standby no longer confirms commits", () => {
  test("fails a change whose wait for the standby is cancelled, in each kind of pool", async () => {
    const database = open();
    const pool = openPool({ url: proxy.url, ...NAME });
    stops.push(() => pool.end());
    await database.raw("create table written (id int)");
    await pair.failOver("isolated");
    const insert = "insert into written values (1)";
    const attempts = [
      database.raw(insert),
      database.transaction((tx) => tx.raw(insert)),
      pool.query(insert),
      pool.query("insert into written values ($1)", [1]),
    ];
    const results = Promise.allSettled(attempts);
    const waits = "application_name = 'test' and wait_event = 'SyncRep'";
    await until("all wait", async () => {
      const { rows } = await database.raw(`select count(*)::int from pg_stat_activity where ${waits}`);
      return rows[0].count === attempts.length;
    });
    await database.raw(`select pg_cancel_backend(pid) from pg_stat_activity where ${waits}`);
    for (const result of await results) {
      expect(result).toMatchObject({ status: "rejected", reason: { code: "08007" } });
      expect(isAway((result as PromiseRejectedResult).reason)).toBe(true);
    }
  });

  test("does not count as writable, and its watch leaves no waiting session behind", async () => {
    expect(await primary.isWritable()).toBe(true);
    await pair.failOver("isolated");
    await until("it is not writable", async () => !(await primary.isWritable()));
    await setTimeout(3_000);
    const database = open();
    const { rows } = await database.raw(
      "select count(*)::int from pg_stat_activity where application_name = 'deputize-primary'",
    );
    expect(rows[0].count).toBeLessThanOrEqual(2);
  });
});

test("a fenced primary is not writable, and is writable again when the fence is removed", async () => {
  expect(await primary.isWritable()).toBe(true);
  const client = new Client({ connectionString: pair.superuserUrl("postgres") });
  await client.connect();
  stops.push(() => client.end());
  const fence = async (state: "on" | "off") => {
    await client.query(`alter system set default_transaction_read_only = ${state}`);
    await client.query("select pg_reload_conf()");
  };
  await fence("on");
  await until("it is not writable", async () => !(await primary.isWritable()));
  await fence("off");
  await until("it is writable", () => primary.isWritable());
});
