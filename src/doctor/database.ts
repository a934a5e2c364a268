import type pg from "pg";
import { WARNING_SECONDS } from "../concurrency/followed_clock.ts";
import { StartError } from "../config.ts";
import { openDatabase } from "../db/database.ts";
import { outageReason, sqlState } from "../db/errors.ts";
import { readSchemaState } from "../db/migrate.ts";
import { checkPoolers } from "../db/pooler/check_poolers.ts";
import { strangeSchema } from "../db/schema_state.ts";
import type { DatabaseUrls } from "../input/database_url.ts";
import { networkFault } from "../input/network_fault.ts";
import { type Check, check, type Finding, failed, NotChecked, ok } from "./check.ts";
import { CONNECT_MS, overPlainConnection } from "./plain_connection.ts";

/** The facts that a server and a session report. Limits below 0 mean none. */
type Facts = {
  version: number;
  version_text: string;
  database: string;
  role: string;
  schema: string | null;
  is_standby: boolean;
  is_read_only: boolean;
  encoding: string;
  fsync: string;
  synchronous_commit: string;
  server_limit: number;
  role_limit: number;
  database_limit: number;
  used: number;
  may_create: boolean;
  foreign_tables: string[];
  closed_tables: string[];
  /** The server's clock minus ours, and half the time of the query, in seconds. */
  clock: { offset: number; error: number };
};

const OLDEST_SERVER = 150_000;

const FACTS = `
select current_setting('server_version_num')::int as version, current_setting('server_version') as version_text,
  current_database() as database, current_user as role, current_schema() as schema,
  pg_is_in_recovery() as is_standby, current_setting('default_transaction_read_only') = 'on' as is_read_only,
  current_setting('server_encoding') as encoding, current_setting('fsync') as fsync,
  current_setting('synchronous_commit') as synchronous_commit,
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
    as server_limit,
  (select rolconnlimit from pg_roles where rolname = current_user) as role_limit,
  (select datconnlimit from pg_database where datname = current_database()) as database_limit,
  (select count(*)::int from pg_stat_activity where backend_type = 'client backend') as used,
  has_schema_privilege(current_schema(), 'create') as may_create,
  array(select relname::text from tables where not pg_has_role(relowner, 'usage') order by 1) as foreign_tables,
  array(select relname::text from tables where not (has_table_privilege(oid, 'select')
    and has_table_privilege(oid, 'insert') and has_table_privilege(oid, 'update')
    and has_table_privilege(oid, 'delete')) order by 1) as closed_tables`;
const TABLES = `
with tables as (select oid, relname, relowner from pg_class
  where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p'))`;

/** Returns the checks of the API's database. They share one connection. */
export function databaseChecks(): Check[] {
  let facts: Promise<Facts> | undefined;
  const known = async (url: string, now: () => Date): Promise<Facts> => {
    facts ??= readFacts(url, now);
    try {
      return await facts;
    } catch {
      throw new NotChecked("the database does not answer");
    }
  };
  const about = (name: string, judge: (facts: Facts, poolSize?: number) => Finding) =>
    check(name, ["DATABASE_URL"], async ({ DATABASE_URL, DATABASE_POOL_SIZE }, { now }) =>
      judge(await known(DATABASE_URL, now), DATABASE_POOL_SIZE),
    );

  return [
    check("database", ["DATABASE_URL"], async ({ DATABASE_URL: url, DEVELOPMENT }, { now }) => {
      facts ??= readFacts(url, now);
      return facts.then(
        (known) => judgeServer(known, DEVELOPMENT ?? false),
        (error: unknown) => explain(error, url),
      );
    }),
    check("direct database", ["DATABASE_DIRECT_URL"], async ({ DATABASE_DIRECT_URL: url }, { now }) =>
      readFacts(url, now).then(
        (known) => ok(`PostgreSQL ${known.version_text}, database ${known.database}, user ${known.role}`),
        (error: unknown) => explain(error, url, "DATABASE_DIRECT_URL"),
      ),
    ),
    check("database pooler", ["DATABASE_URL"], async ({ DATABASE_URL, DATABASE_DIRECT_URL }, { now }) => {
      await known(DATABASE_URL, now);
      return judgePooler({ DATABASE_URL, DATABASE_DIRECT_URL });
    }),
    about("database writes", judgeWrites),
    about("database clock", judgeClock),
    about("database rights", judgeRights),
    about("database connections", judgeConnections),
    check("database schema", ["DATABASE_URL"], async ({ DATABASE_URL: url }, { now }) => {
      await known(url, now);
      return readSchema(url);
    }),
  ];
}

function readFacts(url: string, now: () => Date): Promise<Facts> {
  return overPlainConnection(url, async (client) => {
    const { rows } = await client.query<Omit<Facts, "clock">>(`${TABLES} ${FACTS}`);
    return { ...(rows[0] as Facts), clock: await compareClocks(client, now) };
  });
}

const COMPARISONS = 3;

/** Returns the comparison whose query took the shortest time. */
async function compareClocks(client: pg.Client, now: () => Date): Promise<Facts["clock"]> {
  const found: Facts["clock"][] = [];
  for (let n = 0; n < COMPARISONS; n += 1) {
    const before = now().getTime();
    const { rows } = await client.query<{ ms: number }>(
      "select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms",
    );
    const after = now().getTime();
    const middle = (before + after) / 2;
    found.push({ offset: ((rows[0]?.ms ?? middle) - middle) / 1000, error: (after - before) / 2000 });
  }
  return found.reduce((best, each) => (each.error < best.error ? each : best));
}

/** By SQLSTATE. */
const refusals: Record<string, [what: string, action: string]> = {
  "28P01": ["the server refuses the user or the password", "Correct the user and the password in $URL."],
  "28000": [
    "the server refuses the user",
    "Create the user, allow it in pg_hba.conf, and use TLS (sslmode=verify-full) if the server requires it.",
  ],
  "3D000": ["the database does not exist", "Create it, or correct its name in $URL."],
  "42501": ["the user may not connect to the database", "Grant it connect on the database."],
  "53300": ["all connections are in use", "Raise max_connections, or lower the size of the pools."],
  "57P03": ["the server is starting or stopping", "Wait until it accepts connections."],
  "08P01": [
    "the server or pooler refuses the session's parameters",
    "Set DATABASE_DIRECT_URL to the server itself, see docs/install.md.",
  ],
};

function explain(error: unknown, url: string, setting = "DATABASE_URL"): Finding {
  const at = placeOf(url, setting);
  const [what, action] = refusals[sqlState(error) ?? ""]?.map((text) => text.replace("$URL", setting)) ?? [];
  if (what !== undefined && action !== undefined) return failed(`${at}: ${what}`, action);
  const fault = networkFault(error);
  if (fault !== undefined) return failed(`${at}: ${fault.what}`, fault.action);
  return failed(
    `${at}: ${outageReason(error)}`,
    "Correct DATABASE_URL, or make the server reachable from here.",
  );
}

function placeOf(text: string, setting: string): string {
  const url = URL.parse(text);
  return url === null || url.host === "" ? setting : `${url.host}${url.pathname}`;
}

/** Applies the rules by which a role refuses to start. */
async function judgePooler(urls: DatabaseUrls): Promise<Finding> {
  try {
    await checkPoolers(urls);
    return urls.DATABASE_DIRECT_URL === undefined
      ? ok("connections keep their sessions, so no direct URL is necessary")
      : ok("both URLs lead to the same database, and direct connections keep their sessions");
  } catch (error) {
    if (!(error instanceof StartError)) return explain(error, urls.DATABASE_URL);
    const [detail = "", action = ""] = error.message.split(/: (?=\S)/);
    return failed(detail, `${action.charAt(0).toUpperCase()}${action.slice(1)}.`);
  }
}

/** A database for development may lose its last commits. */
function judgeServer(facts: Facts, isDevelopment: boolean): Finding {
  const { version, version_text, database, role, encoding } = facts;
  const seen = `PostgreSQL ${version_text}, database ${database}, user ${role}`;
  if (version < OLDEST_SERVER) return failed(seen, "Upgrade the server to PostgreSQL 15 or later.");
  if (encoding !== "UTF8") {
    return failed(`${seen}, encoding ${encoding}`, "Create the database with the encoding UTF8.");
  }
  const unsafe = (["fsync", "synchronous_commit"] as const).find((name) => facts[name] === "off");
  if (unsafe === undefined || isDevelopment) return ok(seen);
  return failed(`${seen}, ${unsafe}=off: a crash loses decisions`, `Set ${unsafe} to on.`);
}

function judgeWrites({ is_standby, is_read_only }: Facts): Finding {
  if (is_standby) return failed("the server is a standby", "Let DATABASE_URL lead to the primary.");
  if (is_read_only) {
    return failed(
      "default_transaction_read_only is on",
      "Set it to off for the server, the database and the role, unless an operator of the server made it read-only.",
    );
  }
  return ok("the server is a primary and accepts writes");
}

function judgeClock({ clock: { offset, error } }: Facts): Finding {
  const seen = `this clock is ${Math.abs(offset).toFixed(3)} s ${offset > 0 ? "behind" : "ahead of"} the database's`;
  const bounded = `${seen} (±${error.toFixed(3)} s)`;
  if (Math.abs(offset) - error <= WARNING_SECONDS) return ok(bounded);
  return failed(
    bounded,
    "Synchronize the clocks of this machine and of the database by NTP, to less than 0.5 s.",
  );
}

function judgeRights({ schema, role, may_create, foreign_tables, closed_tables }: Facts): Finding {
  if (schema === null) {
    return failed(
      "the session has no schema",
      `Create a schema that the search_path of ${role} names, and let ${role} own it.`,
    );
  }
  const own = `Let ${role} own the schema ${schema} and its tables.`;
  if (!may_create) return failed(`${role} may not create tables in the schema ${schema}`, own);
  if (closed_tables.length > 0) return failed(`${role} may not read and write ${some(closed_tables)}`, own);
  if (foreign_tables.length > 0) return failed(`${role} does not own ${some(foreign_tables)}`, own);
  return ok(`${role} owns the tables of the schema ${schema}`);
}

function some(names: readonly string[]): string {
  return names.length > 3 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", ");
}

/** The most connections of a role whose pool has no setting: `deputize migrate`. */
const FEW_CONNECTIONS = 4;

function judgeConnections(facts: Facts, poolSize = FEW_CONNECTIONS): Finding {
  const { server_limit, role_limit, database_limit, used } = facts;
  const limit = Math.min(...[server_limit, role_limit, database_limit].filter((each) => each >= 0));
  const seen = `${limit} connections are allowed, ${used} are in use on the server`;
  if (limit >= poolSize) return ok(`${seen}, and one process holds up to ${poolSize}`);
  return failed(
    `${seen}, and one process may hold ${poolSize}`,
    "Raise max_connections, or the limit of the user or the database, see docs/install.md.",
  );
}

async function readSchema(url: string): Promise<Finding> {
  const database = openDatabase({
    url,
    name: "deputize-doctor",
    max: 1,
    silenceMs: CONNECT_MS,
    onError: () => {},
  });
  try {
    const state = await readSchemaState(database);
    if (state.kind === "usable") return ok("the schema fits this version");
    if (state.kind === "behind") {
      return failed(
        `${state.missing.length} migrations are missing: ${some(state.missing)}`,
        "Run deputize migrate.",
      );
    }
    const [what = "", action = ""] = strangeSchema(state.unknown).split(/\. (?=It)/);
    return failed(what, action);
  } catch (error) {
    return explain(error, url);
  } finally {
    await database.destroy();
  }
}
