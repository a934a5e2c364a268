import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { createVaultClient, type VaultClient } from "../../src/vault/client.ts";
import { debianProgram } from "../support/debian.ts";
import { createHome, readIdentity, type VaultHome } from "./fixture.ts";
import { findInMemory, mayReadMemory } from "./memory_support.ts";
import { childrenOf, MAIN, runProgram, type ServedVault, serveProgram, takeSnapshot } from "./program.ts";

const SCRIPT = await debianProgram("/usr/bin/script", "bsdutils");

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let home: VaultHome;
let pin: Buffer;
let vault: ServedVault;
let client: VaultClient;

/** Only the test knows the vault's PIN. */
beforeAll(async () => {
  home = await createHome();
  pin = await readFile(home.config.token.pinFile);
  await rename(home.config.token.pinFile, join(home.dir, "kept-elsewhere"));
  const environment = { KEYVAULT_LOG_LEVEL: "debug" };
  vault = await serveProgram(home, { options: ["--heapsnapshot-signal=SIGUSR2"], environment });
  client = createVaultClient({ url: vault.url, ...readIdentity(home, "api") });
});
afterAll(async () => {
  await client?.close();
  await vault?.kill();
  await home?.remove();
});

const tokenProcess = (): number => childrenOf(vault.pid)[0] ?? 0;
const secret = () => pin.subarray(0, 64);
const makeKey = (name: string) =>
  client.createKey({ tenant: "acc-1", purpose: "agent", label: "agent", ceiling: [] }, name);

const run = (args: string[], input?: Uint8Array) => runProgram(home, args, input && { input });
const atVault = (command: string, ...args: string[]) => [command, "--url", vault.url, ...args];

/** Joins the lines of a command's output that were wrapped for a terminal. */
const unfolded = (output: string): string => output.replaceAll(/\n +/g, " ");

/** Runs a command in its own terminal. Enters `typed` when the command asks for the PIN. */
async function runInTerminal(args: string[], typed: Uint8Array) {
  const line = [process.execPath, MAIN, ...args].map((word) => `'${word}'`).join(" ");
  const child = spawn(SCRIPT ?? "", ["-qec", line, "/dev/null"], {
    env: { ...home.environment, PATH: process.env.PATH },
  });
  let output = "";
  let asked = false;
  child.stdout.on("data", (text: Buffer) => {
    output += text.toString();
    if (asked || !output.includes("PIN: ")) return;
    asked = true;
    child.stdin.write(typed);
  });
  const [code] = (await once(child, "exit")) as [number];
  return { code, output };
}

test("the command line reports a sealed vault, rejects a wrong PIN in one line, and unseals with a PIN from standard input", async () => {
  const status = await run(atVault("status"));
  expect(status.code).toBe(0);
  expect(unfolded(status.output)).toMatch(/^SEALED .*no PIN file.*keyvault unseal/);
  for (const line of status.output.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  await expect(makeKey("too-early")).rejects.toMatchObject({ code: "sealed" });

  const wrong = await run(atVault("unseal"), Buffer.from(`${"0".repeat(64)}\n`));
  expect(wrong).toMatchObject({
    code: 1,
    output: expect.stringMatching(/^keyvault: The token does not accept the PIN/),
  });
  expect(await run(atVault("unseal"))).toMatchObject({
    code: 1,
    output: "keyvault: No PIN was given\n",
  });
  await expect
    .poll(async () => (await run(atVault("unseal", "--json"), pin)).output, {
      timeout: 60_000,
      interval: 1_000,
    })
    .toBe('{"sealed":false}\n');
  expect(await makeKey("after-unsealing")).toHaveProperty("key_id");
});

test("the unsealed vault has no PIN in arguments, environment or log of parent and child", async () => {
  for (const pid of [vault.pid, tokenProcess()]) {
    for (const file of ["cmdline", "environ"]) {
      expect(readFileSync(`/proc/${pid}/${file}`).includes(secret()), file).toBe(false);
    }
  }
  expect(vault.output()).toContain('"event":"unsealed"');
  expect(vault.output()).not.toContain(secret().toString());
});

test("the unsealed vault has no PIN in a heap snapshot of the parent in any encoding", async () => {
  const text = await takeSnapshot(home, vault);
  expect(text, "the snapshot shows what the vault remembers").toContain("unseal");
  const raw = Buffer.from(secret().toString(), "hex");
  for (const form of [
    secret().toString(),
    secret().toString("base64").slice(0, 84),
    secret().toString("hex"),
    raw.toString("base64").slice(0, 42),
  ]) {
    expect(text.includes(form), form).toBe(false);
  }
});

if (!mayReadMemory) console.warn("SKIPPED: reading another process' memory needs Linux and root");
test.skipIf(!mayReadMemory)(
  "the unsealed vault has no PIN in writable memory of the parent, so a core file would not contain it",
  () => {
    const secrets = {
      pin: secret(),
      raw: Buffer.from(secret().toString(), "hex"),
      utf16: Buffer.from(secret().toString(), "utf16le"),
    };
    expect(findInMemory(process.pid, secrets), "the scan finds what is there").toContain("pin");
    expect(findInMemory(vault.pid, secrets)).toEqual([]);
  },
);

test("the command line seals the vault, ends the child that knew the PIN, and unseals with a PIN file", async () => {
  const knew = tokenProcess();
  expect(await run(atVault("seal"))).toMatchObject({
    code: 0,
    output: expect.stringContaining("has been sealed since"),
  });
  await expect.poll(() => readdirSync("/proc").includes(String(knew)), { timeout: 10_000 }).toBe(false);
  await expect(makeKey("while-sealed")).rejects.toMatchObject({ code: "sealed" });
  expect(unfolded((await run(atVault("status"))).output)).toMatch(/^SEALED .*by admin\/admin/);
  if (mayReadMemory) expect(findInMemory(tokenProcess(), { pin: secret() })).toEqual([]);

  const file = join(home.dir, "typed");
  await writeFile(file, pin, { mode: 0o600 });
  expect(await run(atVault("unseal", "--pin-file", file))).toMatchObject({
    code: 0,
    output: "The vault is open.\n",
  });
  expect(await makeKey("once-more")).toHaveProperty("key_id");
  expect(await run(atVault("unseal"), pin)).toMatchObject({
    code: 1,
    output: "keyvault: The vault is not sealed\n",
  });
});

test.skipIf(SCRIPT === undefined)(
  "unseal on a terminal hides the PIN, supports backspace, and stops at Ctrl-C",
  async () => {
    await run(atVault("seal"));
    const givenUp = await runInTerminal(atVault("unseal"), Buffer.from("abc\x03"));
    expect(givenUp.output).toContain("No PIN was given");
    expect(givenUp.code).toBe(1);
    const typed = Buffer.concat([Buffer.from("xy\x7f\x7f"), secret(), Buffer.from("\r")]);
    const { code, output } = await runInTerminal(atVault("unseal"), typed);
    expect(output).toContain("The vault is open.");
    expect(output).not.toContain(secret().toString());
    expect(output).not.toMatch(/xy|abc/);
    expect(code).toBe(0);
    expect(await makeKey("typed-by-hand")).toHaveProperty("key_id");
  },
);

test("keyvault audit verify accepts the PIN on standard input if there is no PIN file", async () => {
  expect(await run(["audit", "verify", "--json"], pin)).toMatchObject({
    code: 0,
    output: expect.stringContaining('"intact":true'),
  });
  const wrong = await run(["audit", "verify"], Buffer.from(`${"0".repeat(64)}\n`));
  expect(wrong).toMatchObject({
    code: 3,
    output: expect.stringMatching(/^keyvault: .*does not accept the PIN/),
  });
});
