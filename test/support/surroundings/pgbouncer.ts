import { execFile } from "node:child_process";
import { chown, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { serverUser } from "../../../src/dev/postgres/user.ts";
import { runningChild, spawnLogged } from "../../../src/dev/process/part.ts";
import { freePort } from "../../../src/dev/process/ports.ts";
import { debianProgram } from "../debian.ts";
import { until } from "../process.ts";

export type PgBouncer = {
  /** Returns a database's URL through the pooler. */
  through(databaseUrl: string): string;
  /** Returns what the pooler has logged. */
  log(): Promise<string>;
  /** Kills the pooler, which cuts all of its connections. It can start again on the same port. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** Stops the pooler and deletes its files. */
  remove(): Promise<void>;
};

export type PgBouncerOptions = {
  mode: "session" | "transaction" | "statement";
  /** Accepts startup parameters that the pooler does not support, and drops them silently. */
  ignoresParameters?: boolean;
  settings?: Record<string, string>;
};

const IGNORED =
  "extra_float_digits,options,statement_timeout,lock_timeout,idle_in_transaction_session_timeout";

/** `PGBOUNCER` names a program of another version. */
const PROGRAM = process.env.PGBOUNCER ?? "/usr/sbin/pgbouncer";

/** Returns whether this version keeps prepared statements in transaction mode. */
export async function keepsPreparedStatements(): Promise<boolean> {
  const program = await debianProgram(PROGRAM, "pgbouncer");
  const { stdout } = await promisify(execFile)(program ?? "", ["--version"]);
  const [, major, minor] = /(\d+)\.(\d+)/.exec(stdout) ?? [];
  return Number(major) > 1 || Number(minor) >= 21;
}

/** Starts a pooler in front of a server. It accepts all roles of the server, with their passwords. */
export async function startPgBouncer(
  superuserUrl: string,
  { mode, ignoresParameters = false, settings }: PgBouncerOptions,
): Promise<PgBouncer> {
  const program = await debianProgram(PROGRAM, "pgbouncer");
  if (program === undefined) throw new Error("Install the Debian package pgbouncer");
  const [server, port, user] = [new URL(superuserUrl), await freePort(), await serverUser()];
  const folder = await mkdtemp(join(tmpdir(), "deputize-pgbouncer-"));
  const lines = Object.entries({
    listen_addr: "127.0.0.1",
    listen_port: String(port),
    unix_socket_dir: "",
    auth_type: "scram-sha-256",
    auth_file: join(folder, "users"),
    auth_user: server.username,
    auth_query: "select usename, passwd from pg_shadow where usename = $1",
    pool_mode: mode,
    max_client_conn: "2000",
    ...((await keepsPreparedStatements()) && { max_prepared_statements: "100" }),
    server_login_retry: "1",
    log_connections: "0",
    log_disconnections: "0",
    ...(ignoresParameters && { ignore_startup_parameters: IGNORED }),
    ...settings,
  }).map(([name, value]) => `${name} = ${value}`);
  const files = {
    users: `"${server.username}" "${decodeURIComponent(server.password)}"\n`,
    config: `[databases]\n* = host=${server.hostname} port=${server.port}\n[pgbouncer]\n${lines.join("\n")}\n`,
  };
  if (user !== undefined) await chown(folder, user.uid, user.gid);
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, name);
    await writeFile(path, text, { mode: 0o600 });
    if (user !== undefined) await chown(path, user.uid, user.gid);
  }
  const through = (databaseUrl: string): string => {
    const url = new URL(databaseUrl);
    url.host = `127.0.0.1:${port}`;
    return url.href;
  };
  let running: ReturnType<typeof runningChild> | undefined;
  let log = async () => "";
  const pgBouncer: PgBouncer = {
    through,
    log: () => log(),
    async start() {
      const how = { ...user, cwd: folder, env: {}, logFile: `${folder}.log`, graceMs: 5_000 };
      const { child, output } = await spawnLogged(program, [join(folder, "config")], how);
      log = output;
      running = runningChild(child, 5_000, "SIGTERM");
      await until("PgBouncer accepts connections", () => {
        if (child.exitCode !== null) throw new Error(`PgBouncer ended with status ${child.exitCode}`);
        return answers(through(superuserUrl));
      });
    },
    async kill() {
      running?.kill();
      await running?.exited;
    },
    async remove() {
      await running?.stop();
      await rm(folder, { recursive: true, force: true });
      await rm(`${folder}.log`, { force: true });
    },
  };
  await pgBouncer.start().catch(async (error) => {
    const text = await log();
    await pgBouncer.remove();
    throw new Error(`PgBouncer did not start: ${text}`, { cause: error });
  });
  return pgBouncer;
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => {});
  try {
    await client.connect();
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}
