import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { initializeVault } from "../../src/dev/secrets.ts";
import { describeError, UserError } from "../../src/dev/user_error.ts";

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-vault-init-"));
});

afterAll(() => rm(folder, { recursive: true, force: true }));

async function initialize(end: string): Promise<{ log: string; lines: string[] | undefined }> {
  const program = join(import.meta.dirname, "fixtures", "vault_init.mjs");
  const logFile = join(folder, `${end}.log`);
  const thrown = await initializeVault({
    program,
    env: { END: end, KEYVAULT_DATA_DIR: "/vault" },
    logFile,
  }).catch((error) => error);
  if (thrown !== undefined) expect(thrown).toBeInstanceOf(UserError);
  expect((await stat(logFile)).mode & 0o777).toBe(0o600);
  return {
    log: await readFile(logFile, "utf8"),
    lines: thrown && describeError(thrown).join("\n").replaceAll(logFile, "LOG").split("\n"),
  };
}

test("a successful keyvault init writes only to its log", async () => {
  expect(await initialize("ready")).toEqual({
    log: 'init --json\n{"step":"token","created":["kek","audit"]}\n',
    lines: undefined,
  });
});

test("a correctable fault of keyvault init is reported with its message, a remedy and the log's path", async () => {
  expect((await initialize("refused")).lines).toEqual([
    "The key vault could not be made ready: the PIN file /pin is gone: put it back",
    "Put that right, or start afresh with another folder: --data",
    "Its log is LOG",
  ]);
});

test("a vault without its PIN file is rejected and does not start sealed", async () => {
  expect((await initialize("pinless")).lines).toEqual([
    "The key vault could not be made ready: the PIN file /vault/pin is not there; put it back",
    "Put that right, or start afresh with another folder: --data",
    "Its log is LOG",
  ]);
});

test("a bug in keyvault init is reported in one line, with the stack only in the log", async () => {
  const { log, lines } = await initialize("broken");
  expect(lines).toEqual([
    "The key vault could not be made ready: TypeError: lobby is not iterable",
    "Its log is LOG",
  ]);
  expect(log).toMatch(/TypeError: lobby is not iterable\n\s+at /);
});

test.each([
  ["killed", "SIGKILL"],
  ["silent", "exit status 3"],
])(
  "a keyvault init that fails without an error message (%s) is reported with its exit: %s",
  async (end, how) => {
    expect((await initialize(end)).lines).toEqual([
      `The key vault could not be made ready: ${how}`,
      "Its log is LOG",
    ]);
  },
);
