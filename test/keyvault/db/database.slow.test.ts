import { createServer } from "node:net";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createClient, openDatabase } from "../../../keyvault/db/database.ts";
import { createHome, SILENT, type VaultHome } from "../fixture.ts";

const LONGER_THAN_A_QUERY_MAY_TAKE_S = 30;

let home: VaultHome;

beforeAll(async () => {
  home = await createHome({ made: "empty" });
});
afterAll(() => home.remove());

test("a query by the audit's client fails within seconds if the database does not answer", async () => {
  const client = createClient(home.config.databaseUrl);
  client.on("error", () => {});
  await client.connect();
  const began = performance.now();
  try {
    await expect(client.query(`select pg_sleep(${LONGER_THAN_A_QUERY_MAY_TAKE_S})`)).rejects.toThrow(
      /timeout/,
    );
    expect(performance.now() - began).toBeLessThan(15_000);
  } finally {
    void client.end().catch(() => {});
  }
}, 60_000);

test("a query fails after its timeout, and the next query does not wait for it", async () => {
  const database = openDatabase(home.config.databaseUrl, SILENT, 1, 500);
  try {
    await expect(database.raw(`select pg_sleep(${LONGER_THAN_A_QUERY_MAY_TAKE_S})`)).rejects.toThrow(
      /timeout/,
    );
  } finally {
    await database.destroy();
  }
});

test("connecting fails if the database accepts connections but never responds", async () => {
  const silent = createServer(() => {}).listen(0, "127.0.0.1");
  await new Promise((resolve) => silent.once("listening", resolve));
  const { port } = silent.address() as { port: number };
  const url = `postgres://nobody@127.0.0.1:${port}/none`;
  const client = createClient(url);
  client.on("error", () => {});
  const database = openDatabase(url, SILENT);
  try {
    await expect(client.connect(), "the audit's connection").rejects.toThrow(/timeout/);
    await expect(database.raw("select 1"), "the others").rejects.toThrow(/timeout/i);
  } finally {
    await database.destroy();
    silent.close();
  }
});

test("knex's warnings and errors go to the log, and nothing goes to standard output", async () => {
  const lines: object[] = [];
  const log = pino({}, { write: (line) => void lines.push(JSON.parse(line)) });
  const database = openDatabase(home.config.databaseUrl, log);
  const { logger } = database.client;
  for (const level of ["warn", "error", "debug"]) logger[level](level);
  await database.destroy();
  expect(lines).toMatchObject(
    ["warn", "error"].map((text) => ({ level: 40, event: "database_trouble", text })),
  );
});
