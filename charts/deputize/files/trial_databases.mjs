// Makes a trial's databases and their roles. What is there stays; a password becomes what its Secret says.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const { Client, escapeIdentifier, escapeLiteral } = createRequire("/app/src/main.ts")("pg");
const WAIT_MS = 2_000;
const TRIES = 150;

const read = (name) => new URL(readFileSync(`/run/secrets/deputize/${name}`, "utf8").trim());
const admin = read("trial-postgres/url");

/** Connected to Postgres, which starts at the same time. */
async function connected() {
  for (let tries = 1; ; tries += 1) {
    const client = new Client({ connectionString: admin.href, connectionTimeoutMillis: WAIT_MS });
    try {
      await client.connect();
      return client;
    } catch (error) {
      await client.end().catch(() => undefined);
      if (tries === TRIES) throw new Error(`Postgres at ${admin.host} does not answer: ${error.code ?? error.message}`);
      if (tries === 1) console.log(`waiting for Postgres at ${admin.host}`);
      await sleep(WAIT_MS);
    }
  }
}

const client = await connected();
const has = async (text, name) => (await client.query(text, [name])).rowCount === 1;

async function makeRole({ username, password }) {
  const verb = (await has("select from pg_roles where rolname = $1", username)) ? "alter" : "create";
  await client.query(`${verb} role ${escapeIdentifier(username)} login password ${escapeLiteral(password)}`);
}

async function makeDatabase({ username, pathname }) {
  const name = pathname.slice(1);
  if (await has("select from pg_database where datname = $1", name)) return;
  await client.query(`create database ${escapeIdentifier(name)} owner ${escapeIdentifier(username)}`);
  console.log(`made the database ${name}`);
}

const [service, keyvault, keyvaultOwner] = [
  read("trial-database/url"),
  read("trial-keyvault-database/url"),
  read("trial-keyvault-database/migration-url"),
];
for (const url of [service, keyvault, keyvaultOwner]) await makeRole(url);
for (const url of [service, keyvaultOwner]) await makeDatabase(url);
await client.end();
