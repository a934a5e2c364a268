import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createKubectl } from "../../src/plugin/kubectl.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-kubectl-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** Returns the error's message for a kubectl that exits with status 1 and this standard error. */
async function failureAfter(err: string): Promise<string> {
  const program = join(folder, "kubectl");
  await writeFile(`${program}.err`, err);
  await writeFile(program, `#!/bin/sh\ncat "$0.err" >&2\nexit 1\n`);
  await chmod(program, 0o755);
  return createKubectl([], program)
    .run(["get"])
    .then(
      () => "nothing",
      (error: Error) => error.message,
    );
}

const LOG = 'E1125 12:41:54.802031    1107 memcache.go:265] "Unhandled Error" err="connection refused"\n';

test("a kubectl error contains kubectl's message without log lines", async () => {
  const refusal = "The connection to the server localhost:8080 was refused";
  expect(await failureAfter(`${LOG}${LOG}${refusal}\n`)).toBe(refusal);
  expect(await failureAfter(`${refusal}\nE1 is no line of a log\n`)).toBe(
    `${refusal}\nE1 is no line of a log`,
  );
});

test("a kubectl error contains the log if there is no message, and the exit status if there is no output", async () => {
  expect(await failureAfter(LOG)).toBe(LOG.trim());
  expect(await failureAfter("")).toMatch(/kubectl ended with status 1$/);
});
