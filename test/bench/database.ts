import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Pool } from "pg";
import { type Database, openDatabase, openPool } from "../../src/db/database.ts";
import { migrate } from "../../src/db/migrate.ts";
import { type RunningPostgres, startPostgres } from "../../src/dev/postgres/postgres.ts";
import { maintainPartitions } from "../../src/proofs/decide/partitions.ts";

/** A Postgres of a bench's own. `folder` is for its other files and goes with it. */
export type BenchDatabase = {
  db: Database;
  pool: Pool;
  url: string;
  postgres: RunningPostgres;
  postgresPid: number;
  folder: string;
};

/** Does the measuring on a fresh Postgres with the newest schema, and takes it away afterwards. */
export async function withBenchDatabase(
  { connections }: { connections?: number },
  measure: (database: BenchDatabase) => Promise<void>,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "deputize-bench-"));
  try {
    const postgres = await startPostgres({ dataDir: join(folder, "postgres") });
    try {
      const url = postgres.superuserUrl("postgres");
      await migrate(url);
      const settings = { url, name: "bench", onError: () => {} };
      const db = openDatabase(settings);
      const pool = openPool({ ...settings, ...(connections !== undefined && { max: connections }) });
      try {
        await maintainPartitions(pool, new Date());
        await measure({ db, pool, url, postgres, postgresPid: postgres.pid, folder });
      } finally {
        await pool.end();
        await db.destroy();
      }
    } finally {
      await postgres.stop();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
