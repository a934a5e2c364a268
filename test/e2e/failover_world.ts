import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, open, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { freePort } from "../../src/dev/process/ports.ts";
import { environmentOf, PROGRAM, startDev, untilLeft, untilUp } from "../support/dev_stack.ts";
import { killHard, until } from "../support/process.ts";
import { type Failover, startPostgresPair } from "../support/surroundings/postgres_pair.ts";
import { startTcpProxy } from "../support/surroundings/tcp_proxy.ts";

/** Two APIs, a worker and a vault as separate processes, whose databases are behind one switching proxy. */
export type FailoverWorld = {
  folder: string;
  bases: [string, string];
  /** The HTTP status of `/readyz` of each process, by name. */
  readiness(): Promise<Record<string, number>>;
  /** Fails over. Resolves to the time at which the new primary accepted a change through the proxy. */
  failOver(how: Failover): Promise<number>;
  renew(): Promise<void>;
  superuserUrl(database: string): string;
  /** Returns the exit status of a command of the vault. */
  keyvault(...args: string[]): Promise<number | null>;
  stop(): Promise<void>;
};

const STARTED_MS = 120_000;
const CREDITS = "1000000000000";

type Process = { name: string; health: string; child: ChildProcess };

/** Lets `deputize dev` create the data and the settings, and starts the parts again with a standby. */
export async function openFailoverWorld(): Promise<FailoverWorld> {
  const folder = await mkdtemp(join(tmpdir(), "deputize-failover-"));
  const environments = await settingsOf(folder);
  const pair = await startPostgresPair(join(folder, "postgres", "data"));
  const proxy = await startTcpProxy(pair.superuserUrl("postgres"));
  const url = new URL(proxy.url);
  for (const name of ["database.url", "keyvault.url"]) {
    await movePort(join(folder, "secrets", name), url.port);
  }
  const vaultProgram = PROGRAM.replace(/src.main\.ts$/, "keyvault/main.ts");
  const { api, worker, keyvault } = environments;
  const second = { ...api, PORT: String(await freePort()), HEALTH_PORT: String(await freePort()) };
  const processes: Process[] = [];
  const start = async (name: string, args: string[], env: Record<string, string>) => {
    const log = await open(join(folder, `${name}.log`), "w");
    const child = spawn(process.execPath, args, { env, stdio: ["ignore", log.fd, log.fd] });
    await log.close();
    const port = env.HEALTH_PORT ?? env.KEYVAULT_HEALTH_PORT;
    processes.push({ name, child, health: `http://127.0.0.1:${port}/readyz` });
  };
  await start("keyvault", [vaultProgram, "serve"], keyvault);
  await start("api", [PROGRAM, "api"], { ...api, ALPHA_CREDITS_MICRO_USD: CREDITS });
  await start("second", [PROGRAM, "api"], {
    ...second,
    OPERATOR_PORT: String(await freePort()),
    ALPHA_CREDITS_MICRO_USD: CREDITS,
  });
  await start("worker", [PROGRAM, "worker"], worker);
  const readiness = async () =>
    Object.fromEntries(
      await Promise.all(processes.map(async ({ name, health }) => [name, await ask(health)])),
    );
  const isReady = async () => Object.values(await readiness()).every((status) => status === 200);
  await until("every process is ready", isReady, STARTED_MS);
  return {
    folder,
    bases: [String(api.BASE_URL), `http://127.0.0.1:${second.PORT}`],
    readiness,
    async failOver(how) {
      const port = await pair.failOver(how);
      proxy.switchTo(port);
      return untilWritable(url.href);
    },
    renew: pair.renew,
    superuserUrl: pair.superuserUrl,
    async keyvault(...args) {
      const env = {
        ...keyvault,
        KEYVAULT_DATABASE_URL_FILE: undefined,
        KEYVAULT_DATABASE_URL: pair.superuserUrl("keyvault"),
      };
      const child = spawn(process.execPath, [vaultProgram, ...args], {
        env,
        stdio: ["ignore", "ignore", "inherit"],
      });
      const [status] = await once(child, "exit");
      return status;
    },
    async stop() {
      await Promise.all(processes.map(({ child }) => killHard(child)));
      await proxy.stop();
      await pair.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

type Environments = Record<"api" | "worker" | "keyvault", Record<string, string>>;

async function settingsOf(folder: string): Promise<Environments> {
  const run = startDev(folder);
  try {
    await untilUp(run);
    const stack = { folder, baseUrl: "", stop: async () => {} };
    return {
      api: await environmentOf(stack, "api"),
      worker: await environmentOf(stack, "worker"),
      keyvault: await environmentOf(stack, "keyvault"),
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

async function ask(url: string): Promise<number> {
  return fetch(url).then(
    ({ status }) => status,
    () => 0,
  );
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
