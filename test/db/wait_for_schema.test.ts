import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { StartError } from "../../src/config.ts";
import { migrate, migrations } from "../../src/db/migrate.ts";
import { waitForSchema } from "../../src/db/wait_for_schema.ts";
import { migratedDatabase, type TestDatabase, testDatabase } from "../support/postgres.ts";
import { until } from "../support/process.ts";
import { startTcpProxy, type TcpProxy } from "../support/surroundings/tcp_proxy.ts";

const BEHIND = "waiting: the database does not have this version's schema yet: run `deputize migrate`";
const next = (n: number) => ({ name: `900${n}_next`, sql: `create table next_${n} (id int)` });
let database: TestDatabase;
let proxy: TcpProxy | undefined;

beforeEach(async () => {
  database = await migratedDatabase();
});
afterEach(async () => {
  await proxy?.stop();
  proxy = undefined;
  await database.drop();
});

/** Returns the log, a function that ends the wait, and whether the wait is over. */
function wait(url: string) {
  const log: string[] = [];
  const ending = new AbortController();
  const write = (line: string) => void log.push(JSON.parse(line).msg);
  const waiting = { log, end: () => ending.abort(), isOver: false };
  const over = waitForSchema(
    { DATABASE_URL: url },
    { log: pino({}, { write }), signal: ending.signal },
  ).finally(() => {
    waiting.isOver = true;
  });
  return Object.assign(waiting, { over });
}

test("waitForSchema waits until the schema exists, and logs the wait once", async () => {
  const empty = await testDatabase();
  const waiting = wait(empty.url);
  await until("it waits", () => waiting.log.length > 0);
  await migrate(empty.url);
  await waiting.over;
  expect(waiting.log).toEqual([BEHIND]);
  await empty.drop();
});

test.each(["cut", "stall"] as const)(
  "waitForSchema waits for an unavailable database (%s) until its signal aborts",
  async (how) => {
    proxy = await startTcpProxy(database.url);
    proxy[how]();
    const [first, other] = [wait(proxy.url), wait(proxy.url)];
    await until("both wait", () => first.log.length > 0 && other.log.length > 0);
    expect(first.log).toEqual([expect.stringMatching(/^waiting: the database does not answer: ./)]);
    other.end();
    await other.over;
    expect(first.isOver).toBe(false);
    proxy.mend();
    await first.over;
  },
);

test("waitForSchema accepts a schema that is one migration ahead, and rejects a schema that is two ahead", async () => {
  await migrate(database.url, { migrations: [...migrations, next(1)] });
  const ahead = wait(database.url);
  await ahead.over;
  expect(ahead.log).toEqual([]);
  await migrate(database.url, { migrations: [...migrations, next(1), next(2)] });
  await expect(wait(database.url).over).rejects.toThrow(StartError);
});
