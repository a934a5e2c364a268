import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { startPostgres } from "../../src/dev/postgres/postgres.ts";
import { processBirth } from "../../src/dev/process/folder_lock.mjs";
import { createHostileTemplate, HOSTILE_SETTINGS } from "./surroundings/hostile_postgres.ts";
import { startPgBouncer } from "./surroundings/pgbouncer.ts";

declare module "vitest" {
  // biome-ignore lint/style/useConsistentTypeDefinitions: merged with the library's own
  interface ProvidedContext {
    /** The superuser's connection string for the test run's Postgres. */
    postgresUrl: string;
    /** The database that the run's test databases copy. */
    databaseTemplate: string;
    /** The URL of a pooler in front of the server, in transaction mode. Empty if the run has none. */
    poolerUrl: string;
    /** A folder that the run's test files share. It is deleted after the run. */
    runFolder: string;
  }
}

const PREFIX = "deputize-test-";

/** Deletes the folders of killed test runs. A folder's name contains the process ID of its run. */
async function removeAbandoned(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const owner = name.startsWith(PREFIX) ? /^(\d+)\.(\S+)-/.exec(name.slice(PREFIX.length)) : null;
    if (owner !== null && processBirth(Number(owner[1])) !== owner[2]) {
      await rm(join(tmpdir(), name), { recursive: true, force: true });
    }
  }
}

const SETTINGS = { fsync: "off", full_page_writes: "off", max_connections: "300", shared_buffers: "128MB" };
/** Some tests hold many transactions open at the same time. */
const POOL = { default_pool_size: "60", server_round_robin: "1" };

/**
 * Starts one Postgres server for the test run. It never syncs to disk, since the data is deleted afterwards.
 * With `POSTGRES=hostile`, the server and its databases have defaults that the service must not depend on.
 * With `POSTGRES=pgbouncer`, the service reaches its databases through a pooler.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await removeAbandoned();
  const isHostile = process.env.POSTGRES === "hostile";
  const folder = await mkdtemp(join(tmpdir(), `${PREFIX}${process.pid}.${processBirth(process.pid)}-`));
  const postgres = await startPostgres({
    dataDir: join(folder, "postgres"),
    settings: { ...SETTINGS, ...(isHostile && HOSTILE_SETTINGS) },
  }).catch(async (error: unknown) => {
    await rm(folder, { recursive: true, force: true });
    throw error;
  });
  project.provide("postgresUrl", postgres.superuserUrl("postgres"));
  project.provide(
    "databaseTemplate",
    isHostile ? await createHostileTemplate(postgres.superuserUrl) : "template0",
  );
  const pooler =
    process.env.POSTGRES === "pgbouncer"
      ? await startPgBouncer(postgres.superuserUrl("postgres"), { mode: "transaction", settings: POOL })
      : undefined;
  project.provide("poolerUrl", pooler?.through(postgres.superuserUrl("postgres")) ?? "");
  project.provide("runFolder", folder);
  return async () => {
    await pooler?.remove();
    await postgres.stop();
    await rm(folder, { recursive: true, force: true });
  };
}
