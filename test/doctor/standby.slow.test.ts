import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { migrate } from "../../src/db/migrate.ts";
import { startPostgres } from "../../src/dev/postgres/postgres.ts";
import { databaseChecks } from "../../src/doctor/database.ts";
import { type PostgresPair, startPostgresPair } from "../support/surroundings/postgres_pair.ts";
import { rowsOf } from "./support.ts";

let folder: string;
let pair: PostgresPair;
let standby: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "doctor-standby-"));
  const dataDir = join(folder, "data");
  await (await startPostgres({ dataDir })).stop();
  pair = await startPostgresPair(dataDir);
  // The fourth line of this file is the port.
  const [, , , port = ""] = (await readFile(`${dataDir}-0/postmaster.pid`, "utf8")).split("\n");
  standby = Object.assign(new URL(pair.superuserUrl("postgres")), { port }).href;
}, 120_000);
afterAll(async () => {
  await pair?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true });
});

const look = async (url: string) =>
  (await rowsOf(databaseChecks(), { DATABASE_URL: url, DEVELOPMENT: "true" }))["database writes"];

test("deputize reconcile reads a standby", async () => {
  await migrate(pair.superuserUrl("postgres"));
  await expect.poll(() => reconcile(standby), { timeout: 60_000 }).toContain('"differences":0');
});

/** Returns the output of `deputize reconcile`, or the failure. */
async function reconcile(url: string): Promise<string> {
  const main = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
  const env = { PATH: process.env.PATH, DATABASE_URL: url };
  return promisify(execFile)(process.execPath, [main, "reconcile"], { env }).then(
    ({ stdout }) => stdout,
    ({ stderr }) => String(stderr),
  );
}

test("a URL that leads to a standby fails, and one that leads to the primary passes", async () => {
  expect(await look(standby)).toMatchObject({
    status: "failed",
    detail: "the server is a standby",
    action: "Let DATABASE_URL lead to the primary.",
  });
  expect(await look(pair.superuserUrl("postgres"))).toMatchObject({ status: "ok" });
});
