import { type StdioOptions, spawnSync } from "node:child_process";
import { appendFileSync, existsSync, readFileSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";

/**
 * Entry point of the trial's Postgres image. The first start creates the database. Every start then replaces
 * this process with Postgres.
 */
const PROGRAMS = join(import.meta.dirname, "postgres/bin");
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    /** The database folder must be inside a volume, and cannot be the volume itself. */
    data: { type: "string", default: "/var/lib/postgresql/data" },
    /** Password of the role `postgres`. The program reads it only at the first start. */
    "password-file": { type: "string", default: "/run/secrets/postgres/password" },
    /** Optional file with one SQL statement per line. The program reads it only at the first start. */
    "init-file": { type: "string", default: "/run/secrets/postgres/init.sql" },
  },
});

if (!existsSync(join(values.data, "PG_VERSION"))) makeFolder(values.data);
const postgres = join(PROGRAMS, "postgres");
process.execve?.(postgres, [
  postgres,
  ...["-D", values.data, "-c", "listen_addresses=*", "-c", "unix_socket_directories="],
  ...positionals,
]);

/** Creates the database under a temporary name, so that an interrupted start can begin again. */
function makeFolder(data: string): void {
  const partial = join(dirname(data), "partial");
  rmSync(partial, { recursive: true, force: true });
  const auth = ["--username", "postgres", "--pwfile", values["password-file"], "--auth", "scram-sha-256"];
  const locale = ["--locale", "C", "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"];
  run("initdb", ["--pgdata", partial, "--encoding", "UTF8", ...auth, ...locale]);
  appendFileSync(join(partial, "pg_hba.conf"), "host all all all scram-sha-256\n");
  if (existsSync(values["init-file"])) runStatements(partial, values["init-file"]);
  renameSync(partial, data);
}

/** Runs SQL statements. The log never quotes a failed one, since statements contain passwords. */
function runStatements(data: string, file: string): void {
  const settings = ["exit_on_error=true", "log_min_error_statement=panic"];
  const options = settings.flatMap((setting) => ["-c", setting]);
  run("postgres", ["--single", "-D", data, ...options, "postgres"], readFileSync(file));
}

/** Runs a Postgres program. If the program fails, it has printed the reason, and this process exits. */
function run(program: string, args: string[], input?: Buffer): void {
  const stdio: StdioOptions = [input === undefined ? "ignore" : "pipe", "ignore", "inherit"];
  const { status } = spawnSync(join(PROGRAMS, program), args, {
    stdio,
    ...(input === undefined ? {} : { input }),
  });
  if (status === 0) return;
  console.error(`${program} ended with ${status}: no database was made in ${values.data}`);
  process.exit(1);
}
