import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { startPostgres } from "../../src/dev/postgres/postgres.ts";
import { processBirth } from "../../src/dev/process/folder_lock.mjs";

declare module "vitest" {
  // biome-ignore lint/style/useConsistentTypeDefinitions: merged with the library's own
  interface ProvidedContext {
    /** The superuser's connection string for the test run's Postgres. */
    postgresUrl: string;
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

/**
 * Starts one Postgres server for the test run. It never syncs to disk, since the data is deleted afterwards.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await removeAbandoned();
  const folder = await mkdtemp(join(tmpdir(), `${PREFIX}${process.pid}.${processBirth(process.pid)}-`));
  const postgres = await startPostgres({
    dataDir: join(folder, "postgres"),
    settings: { fsync: "off", full_page_writes: "off", max_connections: "300", shared_buffers: "128MB" },
  }).catch(async (error: unknown) => {
    await rm(folder, { recursive: true, force: true });
    throw error;
  });
  project.provide("postgresUrl", postgres.superuserUrl("postgres"));
  project.provide("runFolder", folder);
  return async () => {
    await postgres.stop();
    await rm(folder, { recursive: true, force: true });
  };
}
