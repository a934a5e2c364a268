import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { type Config, loadConfig } from "../../../keyvault/config.ts";
import type { RunningPostgres } from "../../../src/dev/postgres/postgres.ts";
import { createVaultClient, type VaultClient } from "../../../src/vault/client.ts";
import { createTransport, type Transport } from "../../../src/vault/transport.ts";

const PLAIN_SIGNER = fileURLToPath(new URL("./plain_signer.ts", import.meta.url));
const MAIN = fileURLToPath(new URL("../../../keyvault/main.ts", import.meta.url));

/** A vault in separate processes. `client` uses the API's certificate, and `admin` the administrator's. */
export type BenchVault = {
  config: Config;
  url: string;
  pid: number;
  sql: pg.Client;
  client: VaultClient;
  admin: Transport;
  close(): Promise<void>;
};

type Environment = Record<string, string>;

/** Creates a vault without rate limits in `dir`, with a database of that name. Does not start it. */
export async function makeBenchVault(
  postgres: RunningPostgres,
  dir: string,
  name: string,
): Promise<{ environment: Environment; url: string }> {
  const url = await createDatabase(postgres, name);
  const environment = {
    KEYVAULT_DATA_DIR: join(dir, name),
    KEYVAULT_DATABASE_URL: url,
    KEYVAULT_PORT: "0",
    KEYVAULT_RATE_PER_KEY: "0",
    KEYVAULT_RATE_PER_TENANT: "0",
    KEYVAULT_LOG_LEVEL: "info",
    KEYVAULT_EXIT_ON_STDIN_CLOSE: "1",
  };
  await once(run(environment, "init", ["ignore", "ignore", "inherit"]), "exit");
  return { environment, url };
}

/** Starts a vault and waits until it listens. The vault exits when its standard input closes. */
export async function serveBenchVault(
  environment: Environment,
): Promise<{ vault: ChildProcess; port: number }> {
  const vault = run(environment, "serve", ["pipe", "pipe", "inherit"]);
  return { vault, port: await listening(vault) };
}

/** Stops a vault and waits until its process has exited. */
export async function stopBenchVault(vault: ChildProcess): Promise<void> {
  vault.stdin?.end();
  if (vault.exitCode === null) await once(vault, "exit");
}

function run(
  env: Environment,
  command: string,
  stdio: ["pipe" | "ignore", "pipe" | "ignore", "inherit"],
): ChildProcess {
  return spawn(process.execPath, [MAIN, command], { env, stdio });
}

/** Creates and starts a vault without rate limits in `dir`, with a database of that name. */
export async function startBenchVault(
  postgres: RunningPostgres,
  dir: string,
  name: string,
): Promise<BenchVault> {
  const { environment, url } = await makeBenchVault(postgres, dir, name);
  const { vault, port } = await serveBenchVault(environment);
  const origin = `https://localhost:${port}`;
  const sql = new pg.Client({ connectionString: url });
  await sql.connect();
  const identity = (role: string) => ({ url: origin, ...readIdentity(join(dir, name, "tls"), role) });
  const client = createVaultClient({ ...identity("api"), connections: 32 });
  const admin = createTransport(identity("admin"));
  return {
    config: loadConfig(environment),
    url: origin,
    pid: vault.pid ?? 0,
    sql,
    client,
    admin,
    async close() {
      await Promise.all([client.close(), admin.close(), sql.end()]);
      await stopBenchVault(vault);
    },
  };
}

/** Starts `plain_signer.ts` with a vault's TLS files. Returns a transport that uses the API's certificate. */
export async function startPlainSigner({
  config,
}: BenchVault): Promise<{ transport: Transport; close(): Promise<void> }> {
  const dir = config.tlsDir;
  const signer = spawn(process.execPath, [PLAIN_SIGNER, dir], { stdio: ["pipe", "pipe", "inherit"] });
  const { value } = await createInterface({ input: signer.stdout })[Symbol.asyncIterator]().next();
  const { port } = JSON.parse(value ?? "{}") as { port: number };
  const transport = createTransport({ url: `https://localhost:${port}`, ...readIdentity(dir, "api") });
  return {
    transport,
    async close() {
      await transport.close();
      signer.stdin.end();
      if (signer.exitCode === null) await once(signer, "exit");
    },
  };
}

async function createDatabase(postgres: RunningPostgres, name: string): Promise<string> {
  const admin = new pg.Client({ connectionString: postgres.superuserUrl("postgres") });
  await admin.connect();
  await admin.query(`create database ${pg.escapeIdentifier(name)}`);
  await admin.end();
  return postgres.superuserUrl(name);
}

async function listening(vault: ChildProcess): Promise<number> {
  if (vault.stdout === null) throw new Error("The vault has no output");
  for await (const line of createInterface({ input: vault.stdout })) {
    const event = JSON.parse(line) as { event?: string; port?: number };
    if (event.event !== "listening") continue;
    vault.stdout.resume();
    return event.port ?? 0;
  }
  throw new Error("The vault ended before it listened");
}

function readIdentity(tls: string, role: string): { ca: Buffer; cert: Buffer; key: Buffer } {
  const read = (file: string): Buffer => readFileSync(join(tls, file));
  return { ca: read("ca.pem"), cert: read(`${role}.pem`), key: read(`${role}.key`) };
}
