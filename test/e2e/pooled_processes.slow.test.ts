import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Database, openDatabase, openPool } from "../../src/db/database.ts";
import { freePort } from "../../src/dev/process/ports.ts";
import type { DatabaseUrls } from "../../src/input/database_url.ts";
import { decideBatch } from "../../src/proofs/decide/decision.ts";
import { createSecretBox } from "../../src/secret_box.ts";
import { insertRecords, itemFor } from "../proofs/records.ts";
import { type TestDatabase, testDatabase } from "../support/postgres.ts";
import { until } from "../support/process.ts";
import { createProofWorld, type ProofWorld } from "../support/proof_world.ts";
import { killRoles, type RoleProcess, startRole } from "../support/role_process.ts";
import { runPart } from "../support/run_parts.ts";
import { type PgBouncer, type PgBouncerOptions, startPgBouncer } from "../support/surroundings/pgbouncer.ts";
import { vaultFiles } from "../support/vault_files.ts";

const DAY_MS = 86_400_000;
const REVOCATIONS = 9;
const sealingKey = randomBytes(32);

/** Starts a pooler and an empty database before the tests of a block. */
function pooledDatabase(options: PgBouncerOptions) {
  const home = {} as { database: TestDatabase; pooler: PgBouncer; pooled: string; roles: RoleProcess[] };
  beforeAll(async () => {
    home.roles = [];
    home.database = await testDatabase({ role: "pooled" });
    home.pooler = await startPgBouncer(runPart("postgresUrl"), options);
    home.pooled = home.pooler.through(home.database.url);
  });
  afterAll(async () => {
    await killRoles(home.roles);
    await home.pooler?.remove();
    await home.database?.drop();
  });
  const start = async (role: string, urls: DatabaseUrls, port = 0): Promise<RoleProcess> => {
    const started = startRole(role, {
      ...(urls as Record<string, string>),
      SEALING_KEY: sealingKey.toString("base64"),
      DEVELOPMENT: "true",
      PORT: String(port),
      BASE_URL: "http://127.0.0.1",
      VAULT_URL: "https://127.0.0.1:1",
      ...(await vaultFiles()),
    });
    home.roles.push(started);
    return started;
  };
  return Object.assign(home, { start });
}

describe.each([
  ["", {}],
  [" that ignores startup parameters", { ignoresParameters: true }],
])("behind a pooler in transaction mode%s, without a direct URL", (_, how) => {
  const home = pooledDatabase({ mode: "transaction", ...how });

  test.each(["migrate", "api", "worker"])("%s exits with status 78 and one sentence", async (name) => {
    const role = await home.start(name, { DATABASE_URL: home.pooled });
    expect(await role.exit).toBe(78);
    expect(role.errors()).toMatch(/^The database is behind a pooler .*: set DATABASE_DIRECT_URL .*\n$/);
  });
});

describe("behind a pooler in session mode, without a direct URL", () => {
  const home = pooledDatabase({ mode: "session" });

  test("a database is migrated, and api and worker become ready", async () => {
    const urls = { DATABASE_URL: home.pooled };
    expect(await (await home.start("migrate", urls)).exit).toBe(0);
    const roles = [await home.start("api", urls), await home.start("worker", urls)];
    await Promise.all(roles.map((role) => role.ready()));
  });
});

describe("behind a pooler in transaction mode, with a direct URL", () => {
  const home = pooledDatabase({ mode: "transaction", settings: { server_round_robin: "1" } });
  const lastMonth = new Date(Date.now() - 40 * DAY_MS);
  let db: Database;
  let worlds: ProofWorld[];
  let ports: number[];

  beforeAll(async () => {
    const urls = { DATABASE_URL: home.pooled, DATABASE_DIRECT_URL: home.database.url };
    expect(await (await home.start("migrate", urls)).exit).toBe(0);
    const settings = { url: home.database.url, name: "test", onError: () => {} };
    db = openDatabase(settings);
    const pool = openPool(settings);
    await decideBatch(pool, [itemFor(await insertRecords(db, 1_000_000), { decidedAt: lastMonth })]);
    await pool.end();
    const box = createSecretBox(sealingKey);
    worlds = await Promise.all(Array.from({ length: REVOCATIONS }, () => createProofWorld(db, box)));
    ports = [await freePort(), await freePort()];
    const apis = await Promise.all(ports.map((port) => home.start("api", urls, port)));
    await Promise.all([...apis, await home.start("worker", urls)].map((role) => role.ready()));
  });
  afterAll(() => db?.destroy());

  const post = async (port: number | undefined, path: string, { apiKey }: ProofWorld, body: unknown = {}) => {
    const headers = { "content-type": "application/json", "x-service-api-key": apiKey };
    const url = `http://127.0.0.1:${port}/v1/service/${path}`;
    const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };

  test("each of 200 proofs, each at two processes, is allowed exactly once", async () => {
    const decide = async (world: ProofWorld, port: number, body: unknown): Promise<unknown> => {
      const { status, body: answer } = await post(port, "verify", world, body);
      return status === 503 ? decide(world, port, body) : (answer.decision ?? status);
    };
    const answers: unknown[] = [];
    const prove = async (): Promise<void> => {
      if (answers.length >= 200) return;
      const world = worlds[answers.length % worlds.length] as ProofWorld;
      const body = { proof_bundle: await world.prove(), required_scope: "data:read" };
      answers.push((await Promise.all(ports.map((port) => decide(world, port, body)))).sort());
      await prove();
    };
    await Promise.all(Array.from({ length: 16 }, prove));
    expect(answers).toEqual(answers.map(() => [400, "allow"]));
  });

  test("a retired API key is refused as soon as its notification arrives, long before its cache entry expires", async () => {
    const took: number[] = [];
    for (const world of worlds) {
      for (const port of ports) expect((await post(port, "challenge", world)).status).toBe(200);
      await db("api_keys")
        .where("connection_id", world.connectionId)
        .update({ retires_at: new Date(0) });
      const begun = performance.now();
      for (const port of ports) {
        await until("it is refused", async () => (await post(port, "challenge", world)).status === 401);
      }
      took.push(performance.now() - begun);
    }
    console.log(`refused after ${took.map(Math.round).join(", ")} ms`);
    expect(took.sort((a, b) => a - b)[Math.floor(REVOCATIONS / 2)]).toBeLessThan(1_500);
  });

  test("a row of a month without a partition moves into it, and no session keeps a lock", async () => {
    const month = lastMonth.toISOString().slice(0, 7).replace("-", "_");
    const placeOf = async () =>
      (
        await db.raw(
          "select tableoid::regclass::text as place from audit_events order by occurred_at limit 1",
        )
      ).rows[0].place;
    await until("it is moved", async () => (await placeOf()) === `audit_events_${month}`, 60_000);
    const locks = () =>
      db.raw(
        `select from pg_locks where locktype = 'advisory'
         and database = (select oid from pg_database where datname = current_database())`,
      );
    await until("no lock is held", async () => (await locks()).rows.length === 0, 60_000);
  });
});
