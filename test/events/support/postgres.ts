import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { migrate } from "../../../src/db/migrate.ts";
import { type RunningPostgres, startPostgres } from "../../../src/dev/postgres/postgres.ts";
import { freePort } from "../../../src/dev/process/ports.ts";

/** A durable Postgres for one test, on a fixed port, that can crash and start again. */
export type FragilePostgres = {
  url: string;
  /** Stops the server without a checkpoint, which cuts all sessions. Starts it again after `downMs`. */
  crash(downMs: number): Promise<void>;
  remove(): Promise<void>;
};

/** Starts the server with the API's migrations applied. */
export async function startFragilePostgres(): Promise<FragilePostgres> {
  const folder = await mkdtemp(join(tmpdir(), "deputize-fragile-"));
  const port = await freePort();
  const start = () => startPostgres({ dataDir: join(folder, "postgres"), port });
  let server: RunningPostgres = await start();
  const url = server.superuserUrl("postgres");
  await migrate(url);
  return {
    url,
    async crash(downMs) {
      process.kill(server.pid, "SIGQUIT");
      await server.exited;
      await new Promise((resolve) => setTimeout(resolve, downMs));
      server = await start();
    },
    async remove() {
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
