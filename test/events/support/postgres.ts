import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { migrate } from "../../../src/db/migrate.ts";
import { type RunningPostgres, startPostgres } from "../../../src/dev/postgres/postgres.ts";
import { freePort } from "../../../src/dev/process/ports.ts";
import type { DatabaseUrls } from "../../../src/input/database_url.ts";
import { startPgBouncer } from "../../support/surroundings/pgbouncer.ts";

/** A durable Postgres for one test, on a fixed port, that can crash and start again. */
export type FragilePostgres = {
  url: string;
  /** The URLs for roles. They lead through a pooler if the server was started with one. */
  urls: DatabaseUrls;
  /** Stops the server without a checkpoint, which cuts all sessions. Starts it again after `downMs`. */
  crash(downMs: number): Promise<void>;
  /** Kills the pooler, which cuts all connections to it. Starts it again after `downMs`. */
  crashPooler(downMs: number): Promise<void>;
  remove(): Promise<void>;
};

/** Starts the server with the migrations applied. If `isPooled`, a pooler in transaction mode is in front. */
export async function startFragilePostgres({ isPooled = false } = {}): Promise<FragilePostgres> {
  const folder = await mkdtemp(join(tmpdir(), "deputize-fragile-"));
  const port = await freePort();
  const start = () => startPostgres({ dataDir: join(folder, "postgres"), port });
  let server: RunningPostgres = await start();
  const url = server.superuserUrl("postgres");
  await migrate(url);
  const pooler = isPooled ? await startPgBouncer(url, { mode: "transaction" }) : undefined;
  return {
    url,
    urls: pooler ? { DATABASE_URL: pooler.through(url), DATABASE_DIRECT_URL: url } : { DATABASE_URL: url },
    async crashPooler(downMs) {
      await pooler?.kill();
      await sleep(downMs);
      await pooler?.start();
    },
    async crash(downMs) {
      process.kill(server.pid, "SIGQUIT");
      await server.exited;
      await sleep(downMs);
      server = await start();
    },
    async remove() {
      await pooler?.remove();
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
