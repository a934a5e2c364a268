import { execFileSync, spawnSync } from "node:child_process";
import { appendFileSync, existsSync, readFileSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";

/**
 * The program of the trial's Postgres image: makes a database folder at the first start, then becomes
 * Postgres. The files that it is given are read at the first start only.
 */
const PROGRAMS = join(import.meta.dirname, "postgres/bin");
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    /** Where the database is kept: a folder in a volume, not the volume itself. */
    data: { type: "string", default: "/var/lib/postgresql/data" },
    /** The password of the role `postgres`. */
    "password-file": { type: "string", default: "/run/secrets/postgres/password" },
    /** SQL that makes roles and databases, one statement a line; may be missing. */
    "init-file": { type: "string", default: "/run/secrets/postgres/init.sql" },
  },
});

if (!existsSync(join(values.data, "PG_VERSION"))) makeFolder(values.data);
process.execve?.(join(PROGRAMS, "postgres"), [
  "postgres",
  ...["-D", values.data, "-c", "listen_addresses=*", "-c", "unix_socket_directories="],
  ...positionals,
]);

/** Made beside its place and moved there when all is done: a first start that was cut off begins anew. */
function makeFolder(data: string): void {
  const partial = join(dirname(data), "partial");
  rmSync(partial, { recursive: true, force: true });
  const auth = ["--username", "postgres", "--pwfile", values["password-file"], "--auth", "scram-sha-256"];
  const locale = [
    "--encoding",
    "UTF8",
    "--locale-provider",
    "builtin",
    "--locale",
    "C.UTF-8",
    "--lc-messages",
    "C",
  ];
  execFileSync(join(PROGRAMS, "initdb"), ["--pgdata", partial, ...auth, ...locale], { stdio: "inherit" });
  appendFileSync(join(partial, "pg_hba.conf"), "host all all all scram-sha-256\n");
  if (existsSync(values["init-file"])) runStatements(partial, values["init-file"]);
  renameSync(partial, data);
}

function runStatements(data: string, file: string): void {
  // Statements have passwords in them: one that fails is not repeated in the log.
  const settings = ["exit_on_error=true", "log_min_error_statement=panic"].flatMap((setting) => [
    "-c",
    setting,
  ]);
  const { status } = spawnSync(
    join(PROGRAMS, "postgres"),
    ["--single", "-D", data, ...settings, "postgres"],
    {
      input: readFileSync(file),
      stdio: ["pipe", "ignore", "inherit"],
    },
  );
  if (status !== 0)
    throw new Error(`A statement in ${file} failed: one statement a line, nothing across lines`);
}
