import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Pool } from "pg";
import { type Database, openDatabase, openPool } from "../../src/db/database.ts";
import { migrate } from "../../src/db/migrate.ts";
import { type RunningPostgres, startPostgres } from "../../src/dev/postgres/postgres.ts";
import { maintainPartitions } from "../../src/proofs/decide/partitions.ts";

/** A temporary Postgres for a bench. `folder` is for other files, and is deleted together with Postgres. */
export type BenchDatabase = {
  db: Database;
  pool: Pool;
  url: string;
  postgres: RunningPostgres;
  postgresPid: number;
  folder: string;
};

/**
 * The size of the write-ahead log between two checkpoints, and the size that Postgres keeps for reuse. Enough
 * connections for eight API processes and eight deciders.
 */
const SETTINGS = { max_wal_size: "4GB", min_wal_size: "1GB", max_connections: "400" };
/** Log files of 16 MB that must exist before a measurement. */
const LOG_FILES = 60;

/** Runs the measurement on a new Postgres with the newest schema, and deletes that Postgres afterwards. */
export async function withBenchDatabase(
  { connections }: { connections?: number },
  measure: (database: BenchDatabase) => Promise<void>,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "deputize-bench-"));
  try {
    const postgres = await startPostgres({ dataDir: join(folder, "postgres"), settings: SETTINGS });
    try {
      const url = postgres.superuserUrl("postgres");
      await migrate(url);
      const settings = { url, name: "bench", onError: () => {} };
      const db = openDatabase(settings);
      const pool = openPool({ ...settings, ...(connections !== undefined && { max: connections }) });
      try {
        await maintainPartitions(pool, new Date());
        await makeLog(pool);
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

/** A long-running server overwrites existing log files. Creating one takes 40 ms without a commit. */
async function makeLog(pool: Pool): Promise<void> {
  for (let file = 0; file < LOG_FILES; file += 1) {
    await pool.query("select pg_logical_emit_message(true, 'bench', ''), pg_switch_wal()");
  }
  await pool.query("checkpoint");
}
