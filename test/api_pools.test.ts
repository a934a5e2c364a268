import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { Pool } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { apiPoolSizes } from "../src/db/database.ts";
import type { ApiPools } from "../src/proofs/api_pools.ts";
import { certify, proofApi } from "./proofs/application.ts";
import { startApi, type TestApi } from "./support/api.ts";
import { heldRows } from "./support/held_rows.ts";
import { holdLoopPauses } from "./support/loop_pauses.ts";
import { until } from "./support/process.ts";

const UPKEEP = 30 * 60_000;
const pauses = holdLoopPauses([UPKEEP]);
const world = proofApi({ config: { HISTORY_RETENTION_MONTHS: 12 } });
let endPause: () => void;
let pool: Pool;
beforeAll(async () => {
  endPause = await pauses.begun(UPKEEP);
  pool = new Pool({ connectionString: world.api.databaseUrl });
});
afterAll(() => pool.end());
const { hold } = heldRows(() => pool);

type Connected = { connection: { stream: Socket } };
type Limits = { name: string; max: number; lockMs: string; statementMs: string; silenceMs: number };

/** Reads the limits of a connection from the database, and of its socket. */
async function limitsOf(connections: Pool): Promise<Limits> {
  const client = await connections.connect();
  const { rows } = await client.query(
    `select current_setting('application_name') as name, current_setting('lock_timeout') as "lockMs",
            current_setting('statement_timeout') as "statementMs"`,
  );
  const { timeout: silenceMs = 0 } = (client as unknown as Connected).connection.stream;
  client.release();
  return { ...rows[0], max: connections.options.max, silenceMs };
}

describe("the pool of the API", () => {
  const statement = { statementMs: "10s", silenceMs: 12_000 };
  test.each<[keyof ApiPools, Limits]>([
    ["decisions", { name: "deputize-decisions", max: 4, lockMs: "50ms", ...statement }],
    ["patient", { name: "deputize-patient", max: 2, lockMs: "2s", ...statement }],
    ["rated", { name: "deputize-rates", max: 4, lockMs: "2s", ...statement }],
    ["months", { name: "deputize-months", max: 1, lockMs: "0", statementMs: "0", silenceMs: 1_800_000 }],
  ])("%s has its size and its time limits", async (name, limits) => {
    expect(await limitsOf(world.api.pools[name])).toEqual(limits);
  });

  test("for ordinary statements has its size and its time limits", async () => {
    const { db } = world.api;
    const { rows } = await db.raw("select current_setting('statement_timeout') as ms");
    const client = await db.client.acquireConnection();
    const silenceMs = client.connection.stream.timeout;
    await db.client.releaseConnection(client);
    expect([db.client.pool.max, rows[0].ms, silenceMs]).toEqual([8, "10s", 12_000]);
  });

  test.each(["decisions", "patient", "rated", "months"] as const)("%s logs a lost connection", (name) => {
    world.api.pools[name].emit("error", new Error(`${name} is gone`), {} as never);
    const line = JSON.parse(world.api.lines.find((each) => each.includes(`${name} is gone`)) ?? "{}");
    expect(line).toMatchObject({ level: 40, msg: "database connection lost" });
  });
});

/** Returns the numbers of an API's connections by name, while each of its pools has too much work. */
async function connectionsOf(api: TestApi): Promise<Record<string, number>> {
  const work = Object.values(api.pools).flatMap((own) =>
    Array.from({ length: 2 * (own.options.max ?? 0) }, () => own.query("select pg_sleep(0.5)")),
  );
  const more = Array.from({ length: 20 }, () => api.db.raw("select pg_sleep(0.5)"));
  await sleep(250);
  const { rows } = await pool.query<{ name: string; count: number }>(
    `select application_name as name, count(*)::int as count from pg_stat_activity
     where datname = current_database() and application_name like 'deputize-%' group by 1`,
  );
  await Promise.all([...work, ...more]);
  return Object.fromEntries(rows.map(({ name, count }) => [name, count]));
}

describe("an API process never holds more than DATABASE_POOL_SIZE connections", () => {
  test.each([
    [25, { api: 8, decisions: 4, patient: 2, rates: 4, months: 1, installation: 4 }],
    [12, { api: 5, decisions: 1, patient: 1, rates: 1, months: 1, installation: 1 }],
    [47, { api: 16, decisions: 8, patient: 4, rates: 8, months: 1, installation: 8 }],
  ])("with %d", async (DATABASE_POOL_SIZE, { installation, ...sizes }) => {
    const { installation: own } = apiPoolSizes(DATABASE_POOL_SIZE);
    expect(own).toBe(installation);
    const held = Object.values(sizes).reduce((sum, size) => sum + size, installation + 2);
    expect(held).toBeLessThanOrEqual(DATABASE_POOL_SIZE);
    const api = await startApi({ config: { DATABASE_POOL_SIZE }, direct: true });
    const reader = pool;
    pool = new Pool({ connectionString: api.databaseUrl });
    const named = Object.entries({ ...sizes, "api-keys": 1, primary: 1 }).map(([name, size]) => [
      `deputize-${name}`,
      size,
    ]);
    await until("all are open", async () =>
      isDeepStrictEqual(await connectionsOf(api), Object.fromEntries(named)),
    );
    await pool.end();
    pool = reader;
    await api.stop();
  });
});

/** Returns the pools from which `work` takes a connection, in order. */
async function poolsOf(work: () => Promise<unknown>): Promise<string[]> {
  const taken: string[] = [];
  const entries = Object.entries(world.api.pools).map(([name, own]) => ({
    own,
    note: () => void taken.push(name),
  }));
  for (const { own, note } of entries) own.on("acquire", note);
  await work();
  for (const { own, note } of entries) own.off("acquire", note);
  return taken;
}

const isWaiting = async (name: string) => {
  const text = `select from pg_stat_activity where datname = current_database()
                and application_name = $1 and cardinality(pg_blocking_pids(pid)) > 0`;
  return (await pool.query(text, [name])).rowCount === 1;
};

describe("the API takes a connection", () => {
  test("for a decision from the decisions' pool, and for one that waits for a row from the patient pool", async () => {
    const app = await world.application();
    const [proof, next] = [await app.proof(), await app.proof()];
    expect(await poolsOf(() => app.verify(proof))).toEqual(["decisions"]);
    const held = await hold("select from certificates where cert_id = $1 for update", [app.certId]);
    const pools = await poolsOf(async () => {
      const deciding = app.verify(next);
      await until("the decision waits", () => isWaiting("deputize-patient"));
      await held.commit();
      expect((await deciding).body.decision).toBe("allow");
    });
    expect(pools[0]).toBe("decisions");
    expect(pools.at(-1)).toBe("patient");
  });

  test("for a decision on a certificate with a rate first from a pool of its own", async () => {
    const app = await world.application([]);
    await certify(app, ["data:read"], { constraints: [{ type: "max_rate", count: 5, window_s: 60 }] });
    const proof = await app.proof();
    expect((await poolsOf(() => app.verify(proof)))[0]).toBe("rated");
  });

  test("for partitions from the patient pool, and for work on whole months from the months' pool", async () => {
    const pools = await poolsOf(async () => {
      endPause();
      endPause = await pauses.begun(UPKEEP);
    });
    expect(pools).toEqual(["patient", "months", "months"]);
  });
});

test("the API starts once its partitions exist", async () => {
  const held = await hold("select pg_advisory_xact_lock(hashtext('deputize.partitions'))", []);
  let isStarted = false;
  const starting = startApi({ shares: world.api }).then((api) => {
    isStarted = true;
    return api;
  });
  await until("it waits", () => isWaiting("deputize-patient"));
  expect(isStarted).toBe(false);
  await held.commit();
  await (await starting).stop();
});
