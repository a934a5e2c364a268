import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createHome, type VaultHome } from "../fixture.ts";

const MAIN = fileURLToPath(new URL("../../../keyvault/main.ts", import.meta.url));

let home: VaultHome;

beforeAll(async () => {
  home = await createHome();
});
afterAll(() => home.remove());

type Ended = { code: number; stdout: string; stderr: string };

const verify = (...args: string[]): Promise<Ended> =>
  promisify(execFile)(process.execPath, [MAIN, "audit", "verify", ...args], { env: home.environment }).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }: Ended) => ({ code, stdout, stderr }),
  );

test("tells how many heads were looked for, and takes a file without any for no proof", {
  timeout: 60_000,
}, async () => {
  const plain = await verify();
  expect(plain).toMatchObject({ code: 0, stderr: "" });
  const [, seq = "", mac = ""] = /audit head\n? +(\d+):([0-9a-f]{64})\n$/.exec(plain.stdout) ?? [];
  const heads = join(home.dir, "heads");
  await writeFile(heads, "");
  expect(await verify("--heads", heads)).toEqual({
    code: 1,
    stdout: "",
    stderr: `keyvault: ${heads} holds no head: the chain was not checked\n`,
  });
  await writeFile(heads, `2026-01-01T00:00:00.000Z ${seq}:${mac}\n`);
  expect((await verify("--heads", heads)).stdout).toContain("and the heads noted before are in them (1).");
  const next = `${Number(seq) + 1}:${mac}`;
  expect(await verify("--heads", heads, "--head", next)).toMatchObject({
    code: 2,
    stdout: `The chain is broken: record ${Number(seq) + 1} and those after it were cut off.\n`,
  });
});
