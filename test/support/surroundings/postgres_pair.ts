import { execFile } from "node:child_process";
import { chown, cp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client } from "pg";
import { type RunningPostgres, startPostgres } from "../../../src/dev/postgres/postgres.ts";
import { until } from "../process.ts";

/**
 * Ends of an old primary. `killed`: it ends without a checkpoint. `demoted`: it restarts as a standby of the
 * new primary. `fenced`: it refuses changes. `frozen`: it does nothing, so its connections are silent.
 * `isolated`: it has lost its standby, so a commit waits for ever.
 */
export const FAILOVERS = ["killed", "demoted", "fenced", "frozen", "isolated"] as const;
export type Failover = (typeof FAILOVERS)[number];

/** A primary with a standby that confirms each commit, so a failover loses no confirmed change. */
export type PostgresPair = {
  port(): number;
  superuserUrl(database: string): string;
  /** Promotes the standby. Returns the port of the new primary, which has no standby. */
  failOver(how: Failover): Promise<number>;
  /** Ends the old primary, and gives the new one a standby. */
  renew(): Promise<void>;
  /** Starts servers again, on their ports, that ended because of their disk. */
  revive(): Promise<void>;
  stop(): Promise<void>;
};

type Server = RunningPostgres & {
  dataDir: string;
  /** Starts the server again if it has ended. */
  revived(): Promise<Server>;
};

const run = promisify(execFile);

/** Starts a primary on a data folder of `startPostgres`, and a standby on a copy beside it. */
export async function startPostgresPair(dataDir: string): Promise<PostgresPair> {
  let primary = await start(dataDir);
  let standby = await addStandby(primary, `${dataDir}-0`);
  let old: Server | undefined;
  let copies = 0;

  async function failOver(how: Failover): Promise<number> {
    const { url } = { url: primary.superuserUrl("postgres") };
    if (how === "killed") {
      process.kill(primary.pid, "SIGQUIT");
      await primary.exited;
    }
    if (how === "frozen") await signalAll(primary, "SIGSTOP");
    if (how === "demoted") await primary.stop();
    if (how === "fenced") {
      await ask(url, "alter system set default_transaction_read_only = on", "select pg_reload_conf()");
      await until("the standby has everything", async () => {
        const [row] = await ask(
          url,
          "select bool_and(replay_lsn >= pg_current_wal_lsn()) as has from pg_stat_replication",
        );
        return row?.has === true;
      });
    }
    await ask(standby.superuserUrl("postgres"), "select pg_promote(true, 60)");
    [old, primary] = [primary, standby];
    if (how === "demoted") old = await startStandby(old.dataDir, primary);
    return primary.port;
  }

  return {
    port: () => primary.port,
    superuserUrl: (database) => primary.superuserUrl(database),
    failOver,
    async renew() {
      if (old !== undefined) await end(old);
      old = undefined;
      copies += 1;
      standby = await addStandby(primary, `${dataDir}-${copies}`);
    },
    async revive() {
      primary = await primary.revived();
      standby = await standby.revived();
    },
    async stop() {
      for (const server of new Set([old, standby, primary])) if (server !== undefined) await end(server);
    },
  };
}

async function start(dataDir: string, settings: Record<string, string> = {}, port?: number): Promise<Server> {
  const server = await startPostgres({
    dataDir,
    settings: { wal_keep_size: "512MB", ...settings },
    ...(port !== undefined && { port }),
  });
  let isRunning = true;
  void server.exited.then(() => {
    isRunning = false;
  });
  const itself: Server = {
    ...server,
    dataDir,
    revived: async () => (isRunning ? itself : start(dataDir, settings, server.port)),
  };
  return itself;
}

/** Copies a running primary, starts the copy as its standby, and makes commits wait for it. */
async function addStandby(primary: Server, dataDir: string): Promise<Server> {
  const url = primary.superuserUrl("postgres");
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query("select pg_backup_start('copy', true)");
  // The exit status is 1 if a file vanished during the copy. The write-ahead log has its content.
  await run("cp", ["-a", primary.dataDir, dataDir]).catch(() => undefined);
  const { rows } = await client.query("select labelfile from pg_backup_stop(false)");
  await client.end();
  await cp(`${primary.dataDir}.password`, `${dataDir}.password`);
  await rm(join(dataDir, "postmaster.pid"));
  await writeOwned(dataDir, "backup_label", rows[0].labelfile);
  const standby = await startStandby(dataDir, primary);
  await ask(url, "alter system set synchronous_standby_names = '*'", "select pg_reload_conf()");
  await until("commits wait for the standby", async () => {
    const [row] = await ask(url, "select sync_state from pg_stat_replication");
    return row?.sync_state === "sync";
  });
  return standby;
}

async function startStandby(dataDir: string, primary: Server): Promise<Server> {
  const password = (await readFile(`${dataDir}.password`, "utf8")).trim();
  await writeOwned(dataDir, "standby.signal", "");
  await writeOwned(dataDir, "postgresql.auto.conf", "");
  const source = `host=127.0.0.1 port=${primary.port} user=postgres password=${password}`;
  return start(dataDir, { primary_conninfo: source });
}

async function writeOwned(dataDir: string, name: string, text: string): Promise<void> {
  const { uid, gid } = await stat(dataDir);
  await writeFile(join(dataDir, name), text, { mode: 0o600 });
  await chown(join(dataDir, name), uid, gid);
}

async function ask(url: string, ...statements: string[]): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    let rows: Record<string, unknown>[] = [];
    for (const statement of statements) ({ rows } = await client.query(statement));
    return rows;
  } finally {
    await client.end();
  }
}

/** Signals the processes of a server. Spares the one that ends the server when this process exits. */
async function signalAll({ pid }: Server, signal: NodeJS.Signals): Promise<void> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8").catch(() => "");
  for (const each of [String(pid), ...children.trim().split(" ")]) {
    const name = await readFile(`/proc/${each}/comm`, "utf8").catch(() => "");
    if (name === "postgres\n") process.kill(Number(each), signal);
  }
}

async function end(server: Server): Promise<void> {
  await signalAll(server, "SIGKILL").catch(() => undefined);
  await server.exited;
  await rm(server.dataDir, { recursive: true, force: true });
}
