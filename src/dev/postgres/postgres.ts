import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { type Part, type RunningPart, runningChild, spawnLogged } from "../process/part.ts";
import { freePort } from "../process/ports.ts";
import { UserError } from "../user_error.ts";
import { findPostgres, POSTGRES_ENV, type PostgresBinaries, type ServerUser } from "./binaries.ts";
import { dataPath, openData, readLockFile, removeStaleLockFile } from "./data.ts";
import { serverUser } from "./user.ts";

/** Settings for low memory use and strict durability. The log has no SQL statements, which may be secret. */
const SETTINGS: Record<string, string> = {
  unix_socket_directories: "",
  max_connections: "100",
  shared_buffers: "64MB",
  synchronous_commit: "on",
  timezone: "UTC",
  log_timezone: "UTC",
  log_min_error_statement: "panic",
  jit: "off",
};

const START_MS = 60_000;
const STOP_MS = 20_000;
const HOST = "127.0.0.1";

type PostgresOptions = {
  /** Absolute path of the data folder, which may be missing. The password is in `<dataDir>.password`. */
  dataDir: string;
  /** Server's port on 127.0.0.1. Default: a free port. */
  port?: number;
  /** Server settings that override {@link SETTINGS}. */
  settings?: Record<string, string>;
  /** The server appends its log to this file. Default: `<dataDir>.log`. */
  logFile?: string;
  /** Is called with the server's process ID as soon as the ID is known. */
  spawned?(pid: number): void;
  /** Aborts the start. */
  signal?: AbortSignal | undefined;
};

/** A server that accepts SCRAM connections on 127.0.0.1 and stops when this process exits. */
export type RunningPostgres = RunningPart & {
  port: number;
  /** Returns a connection string with the password: never print the string. */
  superuserUrl(database: string): string;
};

type Launch = {
  options: PostgresOptions;
  user: ServerUser;
  binaries: PostgresBinaries;
  port: number;
  logFile: string;
};

/**
 * Starts Postgres on `dataDir` and resolves when the server has answered a query. Waits for another server
 * that is about to release the folder. If `signal` aborts, rejects with its reason once nothing runs.
 *
 * Throws `UserError` if the folder is damaged, in use or from another version, or if the port is in use.
 */
export async function startPostgres(options: PostgresOptions): Promise<RunningPostgres> {
  const { signal } = options;
  signal?.throwIfAborted();
  const user = await serverUser();
  const binaries = await findPostgres(user);
  signal?.throwIfAborted();
  const { password } = await openData(options.dataDir, binaries, user, signal);
  const logFile = options.logFile ?? `${options.dataDir}.log`;
  await mkdir(dirname(logFile), { recursive: true });
  const began = performance.now();
  for (;;) {
    signal?.throwIfAborted();
    const port = options.port ?? (await freePort());
    const attempt = await launch({ options, user, binaries, port, logFile });
    if ("child" in attempt) {
      const server = running(attempt.child, port, password);
      await checkAnswers(server);
      return server;
    }
    const again =
      attempt.failure === "held"
        ? (await removeStaleLockFile(options.dataDir)) ||
          performance.now() - began < (await patience(options.dataDir))
        : attempt.failure === "port" && options.port === undefined;
    if (!again) {
      throw explain(attempt, options, port, logFile);
    }
    await sleep(100);
  }
}

/** Returns the milliseconds to wait for a different server: fewer if that server is ready and will stay. */
async function patience(dataDir: string): Promise<number> {
  return (await readLockFile(dataDir))?.status === "ready" ? 3000 : 30_000;
}

type StartError = { failure: "held" | "port" | "other"; line: string };

async function launch(how: Launch): Promise<{ child: ChildProcess } | StartError> {
  const { dataDir, settings } = how.options;
  const args = ["-D", dataPath(dataDir, how.user), "-h", HOST, "-p", String(how.port)];
  for (const [name, value] of Object.entries({ ...SETTINGS, ...settings })) {
    args.push("-c", `${name}=${value}`);
  }
  const { child, output } = await spawnLogged(how.binaries.postgres, args, {
    ...how.user,
    cwd: dataDir,
    env: POSTGRES_ENV,
    logFile: how.logFile,
    signal: "INT",
    graceMs: STOP_MS,
  });
  how.options.spawned?.(child.pid ?? 0);
  if (await isReady(child, how.options)) {
    return { child };
  }
  how.options.signal?.throwIfAborted();
  const text = await output();
  return { failure: classify(text), line: /FATAL: {2}(.*)/.exec(text)?.[1] ?? "it ended without a message" };
}

function classify(log: string): StartError["failure"] {
  if (/lock file "postmaster\.pid" already exists|pre-existing shared memory block/.test(log)) {
    return "held";
  }
  return /could not bind .*: Address already in use/.test(log) ? "port" : "other";
}

async function isReady(
  child: ChildProcess,
  { dataDir, signal }: Pick<PostgresOptions, "dataDir" | "signal">,
): Promise<boolean> {
  const giveUp = performance.now() + START_MS;
  while (child.exitCode === null && child.signalCode === null && child.pid !== undefined) {
    if (signal?.aborted) {
      await runningChild(child, STOP_MS, "SIGINT").stop();
      break;
    }
    if (performance.now() > giveUp) {
      child.kill("SIGQUIT");
      await once(child, "exit");
      break;
    }
    const lock = await readLockFile(dataDir);
    if (lock?.pid === child.pid && lock.status === "ready") {
      return true;
    }
    await sleep(10);
  }
  return false;
}

function running(child: ChildProcess, port: number, password: string): RunningPostgres {
  return {
    ...runningChild(child, STOP_MS, "SIGINT"),
    port,
    superuserUrl: (database) =>
      `postgres://postgres:${password}@${HOST}:${port}/${encodeURIComponent(database)}`,
  };
}

async function checkAnswers(server: RunningPostgres): Promise<void> {
  const client = new Client({ connectionString: server.superuserUrl("postgres") });
  try {
    await client.connect();
    await client.query("select 1");
  } catch (cause) {
    await server.stop();
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new UserError(`Postgres started but refused its own superuser: ${reason}`, undefined, { cause });
  } finally {
    await client.end().catch(() => undefined);
  }
}

function explain(failed: StartError, options: PostgresOptions, port: number, logFile: string): UserError {
  switch (failed.failure) {
    case "held":
      return new UserError(
        `${options.dataDir} is in use by another Postgres: ${failed.line}`,
        "Stop the other Postgres, or use another folder",
      );
    case "port":
      return new UserError(`Port ${port} on ${HOST} is in use, so Postgres cannot listen there`);
    case "other":
      return new UserError(`Postgres did not start: ${failed.line}`, `Its log is ${logFile}`);
  }
}

/** Postgres as a part of the stack. `superuserUrl` works only after the first start. */
type PostgresPart = Part & {
  superuserUrl(database: string): string;
};

/** Returns Postgres as a part of the stack. `setting` names the option that changes the port. */
export function postgresPart(options: {
  dataDir: string;
  port: number;
  setting: string;
  settings?: Record<string, string>;
}): PostgresPart {
  const { setting, ...rest } = options;
  let last: RunningPostgres | undefined;
  return {
    name: "postgres",
    title: "Postgres",
    ports: [{ port: options.port, setting }],
    async start({ logFile, spawned, signal }) {
      last = await startPostgres({ ...rest, logFile, spawned, signal });
      return last;
    },
    superuserUrl(database) {
      if (last === undefined) {
        throw new Error("Postgres has not been started");
      }
      return last.superuserUrl(database);
    },
  };
}

type LoginRole = { name: string; password: string };

/** A role with a database of the same name. Only this role and `guest` can connect to the database. */
export type OwnDatabase = LoginRole & { guest?: LoginRole };

/** Creates missing databases with their roles, and sets each role's password. */
export async function prepareDatabases(
  superuserUrl: string,
  databases: readonly OwnDatabase[],
): Promise<void> {
  const client = new Client({ connectionString: superuserUrl });
  client.on("error", () => undefined);
  await client.connect();
  try {
    for (const { guest, ...database } of databases) {
      const identifier = await prepareRole(client, database);
      const existing = await client.query("select from pg_database where datname = $1", [database.name]);
      if (existing.rowCount === 0) await client.query(`create database ${identifier} owner ${identifier}`);
      await client.query(`revoke connect on database ${identifier} from public`);
      if (guest === undefined) continue;
      await client.query(`grant connect on database ${identifier} to ${await prepareRole(client, guest)}`);
    }
  } finally {
    await client.end();
  }
}

/** Creates the role or sets its password. Returns the role's name quoted for SQL. */
async function prepareRole(client: Client, { name, password }: LoginRole): Promise<string> {
  const identifier = client.escapeIdentifier(name);
  const roles = await client.query("select from pg_roles where rolname = $1", [name]);
  const verb = roles.rowCount === 0 ? "create" : "alter";
  await client.query(`${verb} role ${identifier} login password ${client.escapeLiteral(password)}`);
  return identifier;
}

/** Returns a connection string with the password: never print the string. */
export function databaseUrl({ name, password }: LoginRole, port: number, database = name): string {
  return `postgres://${name}:${password}@127.0.0.1:${port}/${database}`;
}
