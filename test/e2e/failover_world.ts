import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { freePort } from "../../src/dev/process/ports.ts";
import { environmentOf, PROGRAM, startDev, untilLeft, untilUp } from "../support/dev_stack.ts";
import { type PgBouncer, startPgBouncer } from "../support/surroundings/pgbouncer.ts";
import { type Failover, startPostgresPair } from "../support/surroundings/postgres_pair.ts";
import { startTcpProxy, type TcpProxy } from "../support/surroundings/tcp_proxy.ts";
import { createProcess, type Environment, type Process, type Program, untilReady } from "./processes.ts";

/** Two APIs, a worker and a vault as separate processes, whose databases are behind one switching proxy. */
export type FailoverWorld = {
  folder: string;
  bases: [string, string];
  processes: Record<ProcessName, Process>;
  /** The proxy in front of the databases. */
  proxy: TcpProxy;
  /** The HTTP status of `/readyz` of each process, by name. */
  readiness(): Promise<Record<string, number>>;
  /** Fails over. Resolves to the time at which the new primary accepted a change through the proxy. */
  failOver(how: Failover): Promise<number>;
  renew(): Promise<void>;
  /** Starts servers of the database again that a full disk has ended, until the database accepts changes. */
  revive(): Promise<void>;
  superuserUrl(database: string): string;
  /** Returns the exit status of a command of the vault. */
  keyvault(...args: string[]): Promise<number | null>;
  stop(): Promise<void>;
};

/** The roles that may use a pooler. */
export type PooledName = Exclude<ProcessName, "keyvault">;
export type ProcessName = "keyvault" | "api" | "second" | "worker";
type Programs = Record<ProcessName | "operator", Program>;

/**
 * A world whose processes do not run yet. Changes to `programs` and their settings count at the start, which
 * starts all of them except the operator.
 */
export type PreparedWorld = {
  folder: string;
  programs: Programs;
  /** A superuser's URL of the proxy in front of the databases. */
  databases: string;
  start(): Promise<FailoverWorld>;
  stop(): Promise<void>;
};

const STARTED_MS = 120_000;
const REVIVE_MS = 500;
/** As many server connections as two APIs and a worker have clients. */
const POOLER = { default_pool_size: "60" };
const CREDITS = "1000000000000";

/** Opens a world. The processes in `pooled` use the database through PgBouncer in transaction mode. */
export async function openFailoverWorld(pooled: readonly PooledName[] = []): Promise<FailoverWorld> {
  const prepared = await prepareFailoverWorld();
  if (pooled.length === 0) return prepared.start();
  const pooler = await startPgBouncer(prepared.databases, { mode: "transaction", settings: POOLER });
  const stop = async () => {
    await prepared.stop();
    await pooler.remove();
  };
  try {
    for (const name of pooled) await usePooler(prepared.programs[name], pooler);
    return { ...(await prepared.start()), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Lets a program use the database through a pooler, with a direct URL for what a pooler loses. */
export async function usePooler({ env }: Program, pooler: Pick<PgBouncer, "through">): Promise<void> {
  const { DATABASE_URL_FILE: file = "" } = env;
  const direct = (await readFile(file, "utf8")).trim();
  delete env.DATABASE_URL_FILE;
  Object.assign(env, { DATABASE_URL: pooler.through(direct), DATABASE_DIRECT_URL: direct });
}

/**
 * Lets `deputize dev` create the data and the settings, and gives the database a standby. `move` may move the
 * folder of Postgres before that, and returns the new folder.
 */
export async function prepareFailoverWorld(
  move: (folder: string) => Promise<string> = async (folder) => folder,
): Promise<PreparedWorld> {
  const folder = await mkdtemp(join(tmpdir(), "deputize-failover-"));
  const programs = await programsOf(folder);
  const pair = await startPostgresPair(join(await move(join(folder, "postgres")), "data"));
  const proxy = await startTcpProxy(pair.superuserUrl("postgres"));
  const { href: databases, port } = new URL(proxy.url);
  for (const name of ["database.url", "keyvault.url"]) await movePort(join(folder, "secrets", name), port);
  let all: Process[] = [];
  const readiness = async () =>
    Object.fromEntries(await Promise.all(all.map(async (one) => [one.name, await one.readiness()])));
  const stop = async () => {
    await Promise.all(all.map((one) => one.kill()));
    await proxy.stop();
    await pair.stop();
    await rm(folder, { recursive: true, force: true });
  };
  async function start(): Promise<FailoverWorld> {
    const processes = {
      keyvault: createProcess(folder, programs.keyvault),
      api: createProcess(folder, programs.api),
      second: createProcess(folder, programs.second),
      worker: createProcess(folder, programs.worker),
    };
    all = Object.values(processes);
    for (const one of all) await one.start();
    for (const one of all) await untilReady(one, STARTED_MS);
    return {
      folder,
      bases: [String(programs.api.env.BASE_URL), `http://127.0.0.1:${programs.second.env.PORT}`],
      processes,
      proxy,
      readiness,
      async failOver(how) {
        proxy.switchTo(await pair.failOver(how));
        return untilWritable(databases);
      },
      renew: pair.renew,
      async revive() {
        let isWritable = false;
        const writable = untilWritable(databases).then(() => {
          isWritable = true;
        });
        while (!isWritable) {
          await pair.revive();
          await Promise.race([writable, sleep(REVIVE_MS)]);
        }
      },
      superuserUrl: pair.superuserUrl,
      async keyvault(...args) {
        const { KEYVAULT_DATABASE_URL_FILE: _, ...rest } = programs.keyvault.env;
        const env = { ...rest, KEYVAULT_DATABASE_URL: pair.superuserUrl("keyvault") };
        const child = spawn(process.execPath, [VAULT_PROGRAM, ...args], {
          env,
          stdio: ["ignore", "ignore", "inherit"],
        });
        const [status] = await once(child, "exit");
        return status;
      },
      stop,
    };
  }
  return { folder, programs, databases, start, stop };
}

const VAULT_PROGRAM = PROGRAM.replace(/src.main\.ts$/, "keyvault/main.ts");

async function programsOf(folder: string): Promise<Programs> {
  const { api, worker, keyvault, operator } = await settingsOf(folder);
  const first = { ...api, ALPHA_CREDITS_MICRO_USD: CREDITS };
  const ports = {
    PORT: String(await freePort()),
    HEALTH_PORT: String(await freePort()),
    OPERATOR_PORT: String(await freePort()),
  };
  return {
    keyvault: { name: "keyvault", args: [VAULT_PROGRAM, "serve"], env: keyvault },
    api: { name: "api", args: [PROGRAM, "api"], env: first },
    second: { name: "second", args: [PROGRAM, "api"], env: { ...first, ...ports } },
    worker: { name: "worker", args: [PROGRAM, "worker"], env: worker },
    operator: { name: "operator", args: [PROGRAM, "operator"], env: operator },
  };
}

type Environments = Record<"api" | "worker" | "keyvault" | "operator", Environment>;

async function settingsOf(folder: string): Promise<Environments> {
  const run = startDev(folder);
  try {
    await untilUp(run);
    const stack = { folder, baseUrl: "", stop: async () => {} };
    return {
      api: await environmentOf(stack, "api"),
      worker: await environmentOf(stack, "worker"),
      keyvault: await environmentOf(stack, "keyvault"),
      operator: await environmentOf(stack, "operator"),
    };
  } finally {
    run.child.kill("SIGINT");
    await run.exit;
    await untilLeft(folder);
  }
}

async function movePort(file: string, port: string): Promise<void> {
  const url = new URL(await readFile(file, "utf8"));
  url.port = port;
  await writeFile(file, url.href);
}

/** Returns when a change through the proxy succeeded, in milliseconds of `performance.now()`. */
async function untilWritable(url: string): Promise<number> {
  for (;;) {
    const client = new Client({ connectionString: url, connectionTimeoutMillis: 1_000 });
    client.on("error", () => undefined);
    try {
      await client.connect();
      await client.query("create temp table written (id int)");
      await client.query("select pg_logical_emit_message(true, 'test', '')");
      return performance.now();
    } catch {
      await sleep(10);
    } finally {
      void client.end().catch(() => undefined);
    }
  }
}
