import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { startPostgres } from "../../src/dev/postgres.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Superuser connection string of the run's Postgres, for its `postgres` database. */
    postgresUrl: string;
  }
}

/** One Postgres for the run, in a temporary folder. Nothing in it outlives the run, so it never waits for the disk. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), "deputize-test-"));
  const postgres = await startPostgres({
    dataDir: join(folder, "postgres"),
    settings: { fsync: "off", full_page_writes: "off", max_connections: "300", shared_buffers: "128MB" },
  }).catch(async (error: unknown) => {
    await rm(folder, { recursive: true, force: true });
    throw error;
  });
  project.provide("postgresUrl", postgres.superuserUrl("postgres"));
  return async () => {
    await postgres.stop();
    await rm(folder, { recursive: true, force: true });
  };
}
