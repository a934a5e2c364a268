import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type DatabaseSettings, openDatabase, openPool } from "../../src/db/database.ts";
import { isAway } from "../../src/db/errors.ts";
import { type TestDatabase, testDatabase } from "../support/postgres.ts";
import { until } from "../support/process.ts";
import { startTcpProxy, type TcpProxy } from "../support/surroundings/tcp_proxy.ts";

type Opened = { query(sql: string): Promise<unknown>; close(): Promise<unknown> };

const ways: [string, (settings: DatabaseSettings) => Opened][] = [
  [
    "a database",
    (settings) => {
      const database = openDatabase(settings);
      return { query: async (sql) => database.raw(sql), close: () => database.destroy() };
    },
  ],
  [
    "a pool",
    (settings) => {
      const pool = openPool(settings);
      return { query: (sql) => pool.query(sql), close: () => pool.end() };
    },
  ],
];

describe.each(ways)("%s with a limit for the server's silence", (_, open) => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  let opened: Opened;
  let lost: Error[];

  beforeEach(async () => {
    database = await testDatabase();
    proxy = await startTcpProxy(database.url);
    lost = [];
    const onError = (error: Error) => lost.push(error);
    opened = open({ url: proxy.url, name: "test", max: 1, silenceMs: 400, onError });
    await opened.query("select 1");
  });

  afterEach(async () => {
    await opened.close();
    await proxy.stop();
    await database.drop();
  });

  test("closes the connection if the server vanishes silently, and then opens a new one", async () => {
    proxy.stall();
    const failed = await opened.query("select 2").catch((error: unknown) => error);
    expect(failed).toMatchObject({ message: expect.stringContaining("the server is silent") });
    expect(isAway(failed)).toBe(true);
    proxy.mend();
    await opened.query("select 3");
  });

  test("gives up connecting to a server that does not answer, and connects when the server answers again", async () => {
    proxy.stall();
    const fresh = open({ url: proxy.url, name: "test", max: 1, onError: () => {} });
    const failed = await fresh.query("select 2").catch((error: unknown) => error);
    expect(isAway(failed)).toBe(true);
    proxy.mend();
    await fresh.query("select 3");
    await fresh.close();
  });

  test("does not close an idle connection", async () => {
    const { pid } = await pidOf();
    let others = 0;
    await until("the time of silence has passed", () => {
      others += 1;
      return others > 40;
    });
    expect(await pidOf()).toEqual({ pid });
    expect(lost).toEqual([]);
  });

  async function pidOf(): Promise<{ pid: number }> {
    const { rows } = (await opened.query("select pg_backend_pid() as pid")) as { rows: [{ pid: number }] };
    return rows[0];
  }
});
