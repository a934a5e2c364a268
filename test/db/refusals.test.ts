import { createServer } from "node:net";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { createCreditsCommands } from "../../src/accounts/ledger/credits_command.ts";
import { systemClock } from "../../src/clock.ts";
import { StartError } from "../../src/config.ts";
import { ReadOnlyServer } from "../../src/db/connection.ts";
import { isAway } from "../../src/db/errors.ts";
import { migrate } from "../../src/db/migrate.ts";
import { createRefusalCheck } from "../../src/db/refusals.ts";
import { waitForSchema } from "../../src/db/wait_for_schema.ts";
import { createEventsCommands } from "../../src/events/command/events_command.ts";
import { createHistoryCommands } from "../../src/history/archive/history_command.ts";
import { readers } from "../../src/installation/readers.ts";
import { runReconcile } from "../../src/roles.ts";
import { type TestDatabase, testDatabase } from "../support/postgres.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await testDatabase({ role: "refused" });
});
afterAll(() => database.drop());
afterEach(() => void vi.restoreAllMocks());

const starts: [string, (url: string) => Promise<unknown>][] = [
  ["deputize migrate", (url) => migrate(url, { databaseMs: 300_000 })],
  [
    "a role",
    (url) =>
      waitForSchema(
        { DATABASE_URL: url },
        { log: pino({ level: "silent" }), signal: AbortSignal.timeout(30_000) },
      ),
  ],
];

/** Changes a URL, and returns it as text. */
function changed(change: (url: URL) => void): string {
  const url = new URL(database.url);
  change(url);
  return url.href;
}

describe("a command stops with one sentence for a wrong password", () => {
  const url = () => changed((text) => (text.password = "wrong"));
  const parts = () => ({ url: url(), clock: systemClock, out: process.stdout, err: process.stderr });
  test.each([
    ["credits", () => createCreditsCommands(parts()).show({ account: "a@b.example" })],
    ["events", () => createEventsCommands({ ...parts(), kafka: undefined, readers }).status({})],
    ["history", () => createHistoryCommands({ ...parts(), url }).archive({ month: "2026-01", to: "/tmp" })],
    ["reconcile", () => runReconcile({ DATABASE_URL: url() })],
  ])("%s", async (_, command) => {
    const refused = command();
    await expect(refused).rejects.toThrow(StartError);
    await expect(refused).rejects.toThrow("password authentication failed");
  });
});

describe.each(starts)("%s stops with one sentence, and does not wait", (_, start) => {
  test.each([
    ["a wrong password", (url: URL) => (url.password = "wrong"), "correct the user and the password"],
    ["a missing role", (url: URL) => (url.username = "nobody"), "correct the user and the password"],
    ["a missing database", (url: URL) => (url.pathname = "/none"), "create the database"],
    ["a server without TLS", (url: URL) => (url.search = "?sslmode=require"), "correct sslmode"],
    [
      "a missing file of a certificate authority",
      (url: URL) => (url.search = "?sslmode=verify-full&sslrootcert=/no/such/file"),
      "sslrootcert",
    ],
    [
      "a missing schema",
      (url: URL) => (url.search = "?options=-c%20search_path%3Dnone"),
      "no schema in the search path (none) exists: create the schema",
    ],
  ])("for %s", async (_, change, message) => {
    const refused = start(changed(change));
    await expect(refused).rejects.toThrow(StartError);
    await expect(refused).rejects.toThrow(message);
    await expect(refused).rejects.not.toThrow(new URL(database.url).password);
  });
});

test("a start waits 10 s for a standby to become the primary, in a row", () => {
  let now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => now);
  const check = createRefusalCheck();
  const standby = new ReadOnlyServer("the server is a standby");
  check(standby);
  now = 9_999;
  check(standby);
  check(new Error("Connection terminated unexpectedly"));
  now = 10_000;
  check(standby);
  now = 20_000;
  expect(() => check(standby)).toThrow(
    new StartError("The database cannot be used: the server is a standby"),
  );
});

test("a start waits for a server that is not there yet", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  const refused = migrate(
    changed((url) => (url.port = String(port))),
    { databaseMs: 10 },
  );
  await expect(refused).rejects.toThrow("The database did not answer in 0.01 s");
  const noSocket = { code: "ENOENT", syscall: "connect" };
  expect(() => createRefusalCheck()(Object.assign(new Error("connect ENOENT"), noSocket))).not.toThrow();
});

test.each(["28P01", "28000", "3D000", "42501"])(
  "the SQLSTATE %s counts as temporarily unavailable",
  (code) => {
    expect(isAway(Object.assign(new Error("refused"), { code }))).toBe(true);
  },
);
