import { randomBytes } from "node:crypto";
import { Client, escapeIdentifier, escapeLiteral } from "pg";
import type { DatabaseUrls } from "../../src/input/database_url.ts";
import { runPart } from "./run_parts.ts";

/** A test's separate database, on the Postgres server of this test run. */
export type TestDatabase = {
  url: string;
  /** The guest may connect but owns nothing. Without a guest, this is the owner's connection string. */
  guestUrl: string;
  /** Drops the database with its connections and with the roles that were created for it. */
  drop(): Promise<void>;
};

export type TestDatabaseOptions = {
  /** Prefix of a new login role that owns the database. Default: the superuser owns it. */
  role?: string;
  /** Prefix of a new login role that may connect but owns nothing. Default: no guest. */
  guest?: string;
  /** Name of a database to copy. Default: the run's empty one. */
  template?: string;
};

export async function testDatabase(options: TestDatabaseOptions = {}): Promise<TestDatabase> {
  const suffix = randomBytes(6).toString("hex");
  const name = `test_${suffix}`;
  const [role, guest] = [options.role, options.guest].map((given) => given && `${given}_${suffix}`);
  let [url, guestUrl] = ["", ""];
  await asSuperuser(async (client) => {
    url = await enter(client, name, role);
    guestUrl = guest === undefined ? url : await enter(client, name, guest);
    // The owner is not a superuser. The grant lets the owner close the guest's connections.
    if (role !== undefined && guest !== undefined) {
      await client.query(`grant ${escapeIdentifier(guest)} to ${escapeIdentifier(role)}`);
    }
    await create(client, name, role, options.template ?? runPart("databaseTemplate"));
  });
  return {
    url,
    guestUrl,
    drop: () =>
      asSuperuser(async (client) => {
        await client.query(`drop database ${escapeIdentifier(name)} with (force)`);
        for (const one of [role, guest]) {
          if (one !== undefined) await client.query(`drop role ${escapeIdentifier(one)}`);
        }
      }),
  };
}

/**
 * Returns the URLs by which the service reaches a database. They lead through a pooler if the run has one and
 * the database is on the run's server.
 */
export function serviceUrls(url: string): DatabaseUrls {
  const pooler = runPart("poolerUrl");
  const pooled = new URL(url);
  const isOwn = pooled.host === new URL(runPart("postgresUrl")).host;
  if (pooler === "" || !isOwn) return { DATABASE_URL: url };
  pooled.host = new URL(pooler).host;
  return { DATABASE_URL: pooled.href, DATABASE_DIRECT_URL: url };
}

/** Returns the connection string of a new login role. Without a role, returns the superuser's. */
async function enter(client: Client, name: string, role: string | undefined): Promise<string> {
  const url = databaseUrl(name);
  if (role === undefined) return url.href;
  const password = randomBytes(16).toString("hex");
  await client.query(`create role ${escapeIdentifier(role)} login password ${escapeLiteral(password)}`);
  url.username = role;
  url.password = password;
  return url.href;
}

const MIGRATED = "template_migrated";
const MIGRATED_LOCK = 7_233_001;

/** Returns a copy of a migrated database. The migrations run once per test run. */
export async function migratedDatabase(): Promise<TestDatabase> {
  await asSuperuser(async (client) => {
    await client.query("select pg_advisory_lock($1)", [MIGRATED_LOCK]);
    const { rowCount } = await client.query("select from pg_database where datname = $1", [MIGRATED]);
    if (rowCount === 0) {
      const { migrate } = await import("../../src/db/migrate.ts");
      const unfinished = `unfinished_${randomBytes(6).toString("hex")}`;
      await create(client, unfinished, undefined, runPart("databaseTemplate"));
      await migrate(databaseUrl(unfinished).href);
      await client.query(`alter database ${escapeIdentifier(unfinished)} rename to ${MIGRATED}`);
    }
  });
  return testDatabase({ template: MIGRATED });
}

async function create(client: Client, name: string, role: string | undefined, template: string) {
  const owner = role === undefined ? "" : `OWNER ${escapeIdentifier(role)}`;
  await client.query(
    `create database ${escapeIdentifier(name)} ${owner} template ${escapeIdentifier(template)} STRATEGY file_copy`,
  );
}

async function asSuperuser<T>(work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: runPart("postgresUrl") });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

function databaseUrl(name: string): URL {
  const url = new URL(runPart("postgresUrl"));
  url.pathname = `/${name}`;
  return url;
}
