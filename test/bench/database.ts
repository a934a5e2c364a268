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

/** Room in the log between two checkpoints, and how much of it is kept to be written over. */
const LOG_SETTINGS = { max_wal_size: "4GB", min_wal_size: "1GB" };
/** Files of the log, 16 MB each, that are ready before anything is measured. */
const LOG_FILES = 60;

/** Does the measuring on a fresh Postgres with the newest schema, and takes it away afterwards. */
export async function withBenchDatabase(
  { connections }: { connections?: number },
  measure: (database: BenchDatabase) => Promise<void>,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "deputize-bench-"));
  try {
    const postgres = await startPostgres({ dataDir: join(folder, "postgres"), settings: LOG_SETTINGS });
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

/**
 * Makes the files of the log that a server which has run for a while has already: it writes over old ones. A
 * new one takes 40 ms, in which nothing is committed.
 */
async function makeLog(pool: Pool): Promise<void> {
  for (let file = 0; file < LOG_FILES; file += 1) {
    await pool.query("select pg_logical_emit_message(true, 'bench', ''), pg_switch_wal()");
  }
  await pool.query("checkpoint");
}
