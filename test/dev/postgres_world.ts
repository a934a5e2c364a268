import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client } from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import { type RunningPostgres, startPostgres } from "../../src/dev/postgres/postgres.ts";
import { UserError } from "../../src/dev/user_error.ts";
import { killHard, type RunningScript, runScript } from "../support/process.ts";

/** A new folder for each test of a file. The test's servers stop after the test. */
export type PostgresWorld = {
  folder: string;
  dataDir: string;
  /** Copies a stopped server's data to the test's data folder. */
  useTemplate(): Promise<void>;
  start(options?: { port?: number }): Promise<RunningPostgres>;
  startElsewhere(): Promise<RunningScript>;
  query(server: RunningPostgres, sql: string): Promise<unknown[]>;
  /** Returns the error of a start that fails. */
  refusal(): Promise<UserError>;
};

/** Sets up the folders for a test file. */
export function postgresWorld(): PostgresWorld {
  let template: string;
  const servers: RunningPostgres[] = [];
  const scripts: RunningScript[] = [];
  const world = { useTemplate, start, startElsewhere, query, refusal } as PostgresWorld;

  beforeAll(async () => {
    template = await mkdtemp(join(tmpdir(), "deputize-postgres-"));
    await (await startPostgres({ dataDir: join(template, "postgres") })).stop();
  });

  afterAll(() => rm(template, { recursive: true, force: true }));

  beforeEach(async () => {
    world.folder = await mkdtemp(join(tmpdir(), "deputize-postgres-"));
    world.dataDir = join(world.folder, "state", "postgres");
  });

  afterEach(async () => {
    await Promise.all(scripts.splice(0).map(({ child }) => killHard(child)));
    await Promise.all(servers.splice(0).map((server) => server.stop()));
    await rm(world.folder, { recursive: true, force: true });
  });

  async function useTemplate(): Promise<void> {
    await promisify(execFile)("cp", ["-a", template, join(world.folder, "state")]);
  }

  async function start(options: { port?: number } = {}): Promise<RunningPostgres> {
    const server = await startPostgres({ dataDir: world.dataDir, ...options });
    servers.push(server);
    return server;
  }

  async function startElsewhere(): Promise<RunningScript> {
    const script = await runScript(join(import.meta.dirname, "fixtures/run_postgres.ts"), [world.dataDir]);
    scripts.push(script);
    return script;
  }

  async function query(server: RunningPostgres, sql: string): Promise<unknown[]> {
    const client = new Client({ connectionString: server.superuserUrl("postgres") });
    await client.connect();
    try {
      return (await client.query({ text: sql, rowMode: "array" })).rows;
    } finally {
      await client.end();
    }
  }

  async function refusal(): Promise<UserError> {
    const thrown = await start().then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(thrown).toBeInstanceOf(UserError);
    return thrown as UserError;
  }

  return world;
}
