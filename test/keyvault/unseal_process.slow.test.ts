import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { createVaultClient, type VaultClient } from "../../src/vault/client.ts";
import { debianProgram } from "../support/debian.ts";
import { createHome, readIdentity, type VaultHome } from "./fixture.ts";
import { findInMemory, mayReadMemory } from "./memory_support.ts";

/** Gives a program a terminal. */
const SCRIPT = await debianProgram("/usr/bin/script", "bsdutils");
const MAIN = fileURLToPath(new URL("../../keyvault/main.ts", import.meta.url));

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let home: VaultHome;
let pin: Buffer;
let vault: ChildProcess;
let said = "";
let url: string;
let client: VaultClient;

/** A sealed vault as a process of its own, whose PIN is nowhere on this machine but in this test. */
beforeAll(async () => {
  home = await createHome();
  pin = await readFile(home.config.token.pinFile);
  await rename(home.config.token.pinFile, join(home.dir, "kept-elsewhere"));
  vault = spawn(process.execPath, ["--heapsnapshot-signal=SIGUSR2", MAIN, "serve"], {
    cwd: home.dir,
    env: { ...home.environment, KEYVAULT_LOG_LEVEL: "debug" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  for (const stream of [vault.stdout!, vault.stderr!]) {
    stream.on("data", (text: Buffer) => {
      said += text.toString();
    });
  }
  const port = await new Promise<number>((resolve, reject) => {
    vault.once("exit", (code) => reject(new Error(`exit ${code}: ${said}`)));
    createInterface({ input: vault.stdout! }).on("line", (line) => {
      const event = JSON.parse(line) as { event?: string; port?: number };
      if (event.event === "listening") resolve(event.port!);
    });
  });
  url = `https://localhost:${port}`;
  client = createVaultClient({ url, ...readIdentity(home, "api") });
});
afterAll(async () => {
  await client?.close();
  vault?.kill("SIGKILL");
  await home?.remove();
});

const tokenProcess = (): number =>
  Number(readFileSync(`/proc/${vault.pid}/task/${vault.pid}/children`, "utf8").trim().split(" ")[0]);
const secret = () => pin.subarray(0, 64);
const makeKey = (name: string) =>
  client.createKey({ tenant: "acc-1", purpose: "agent", label: "agent", ceiling: [] }, name);

/** Runs a command of the vault's, with this standard input. */
async function run(args: string[], input: Uint8Array = Buffer.alloc(0)) {
  const child = spawn(process.execPath, [MAIN, ...args], { env: home.environment });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (text: Buffer) => {
      output += text.toString();
    });
  }
  child.stdin.end(input);
  const [code] = (await once(child, "close")) as [number];
  return { code, output };
}

/** What a command says, with the lines that were folded for a terminal put together again. */
const unfolded = (output: string): string => output.replaceAll(/\n +/g, " ");

/** Runs a command in a terminal of its own; `typed` is entered when it asks for the PIN. */
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

/** Written by the vault on the signal, after it collected its garbage. */
async function takeSnapshot(): Promise<string> {
  const snapshots = () => readdirSync(home.dir).filter((name) => name.endsWith(".heapsnapshot"));
  const before = snapshots().length;
  vault.kill("SIGUSR2");
  await expect.poll(() => snapshots().length, { timeout: 60_000 }).toBe(before + 1);
  const file = join(home.dir, snapshots().sort().at(-1)!);
  await expect
    .poll(() => readFileSync(file, "latin1").trimEnd().endsWith("}"), { timeout: 60_000 })
    .toBe(true);
  return readFileSync(file, "latin1");
}

test("the command line says that it is sealed, refuses a wrong PIN in one line, and unseals it by standard input", async () => {
  const status = await run(["status", "--url", url]);
  expect(status.code).toBe(0);
  expect(unfolded(status.output)).toMatch(/^SEALED .*no PIN file.*keyvault unseal/);
  for (const line of status.output.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  await expect(makeKey("too-early")).rejects.toMatchObject({ code: "sealed" });

  const wrong = await run(["unseal", "--url", url], Buffer.from(`${"0".repeat(64)}\n`));
  expect(wrong).toMatchObject({
    code: 1,
    output: expect.stringMatching(/^keyvault: The token does not accept the PIN/),
  });
  expect(await run(["unseal", "--url", url])).toMatchObject({
    code: 1,
    output: "keyvault: No PIN was given\n",
  });
  await expect
    .poll(async () => (await run(["unseal", "--url", url, "--json"], pin)).output, {
      timeout: 60_000,
      interval: 1_000,
    })
    .toBe('{"sealed":false}\n');
  expect(await makeKey("after-unsealing")).toHaveProperty("key_id");
});

test("after that the PIN is in no argument, environment or log of parent or child", async () => {
  for (const pid of [vault.pid!, tokenProcess()]) {
    for (const file of ["cmdline", "environ"]) {
      expect(readFileSync(`/proc/${pid}/${file}`).includes(secret()), file).toBe(false);
    }
  }
  expect(said).toContain('"event":"unsealed"');
  expect(said).not.toContain(secret().toString());
});

test("nor in a heap snapshot of the parent, in any form", async () => {
  const text = await takeSnapshot();
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
  "nor in any writable memory of the parent: a core of it would not have it",
  () => {
    const secrets = {
      pin: secret(),
      raw: Buffer.from(secret().toString(), "hex"),
      utf16: Buffer.from(secret().toString(), "utf16le"),
    };
    expect(findInMemory(process.pid, secrets), "the scan finds what is there").toContain("pin");
    expect(findInMemory(vault.pid!, secrets)).toEqual([]);
  },
);

test("sealed again by the command line, the child that knew the PIN is gone; a file unseals it too", async () => {
  const knew = tokenProcess();
  expect(await run(["seal", "--url", url])).toMatchObject({
    code: 0,
    output: expect.stringContaining("is sealed since"),
  });
  await expect.poll(() => readdirSync("/proc").includes(String(knew)), { timeout: 10_000 }).toBe(false);
  await expect(makeKey("while-sealed")).rejects.toMatchObject({ code: "sealed" });
  expect(unfolded((await run(["status", "--url", url])).output)).toMatch(/^SEALED .*by admin\/admin/);
  if (mayReadMemory) expect(findInMemory(tokenProcess(), { pin: secret() })).toEqual([]);

  const file = join(home.dir, "typed");
  await writeFile(file, pin, { mode: 0o600 });
  expect(await run(["unseal", "--url", url, "--pin-file", file])).toMatchObject({
    code: 0,
    output: "The vault is open.\n",
  });
  expect(await makeKey("once-more")).toHaveProperty("key_id");
  expect(await run(["unseal", "--url", url], pin)).toMatchObject({
    code: 1,
    output: "keyvault: The vault is not sealed\n",
  });
});

test.skipIf(SCRIPT === undefined)(
  "a terminal shows nothing of the PIN that is typed, wrong letters taken back; Ctrl-C ends it",
  async () => {
    await run(["seal", "--url", url]);
    const givenUp = await runInTerminal(["unseal", "--url", url], Buffer.from("abc\x03"));
    expect(givenUp.output).toContain("No PIN was given");
    expect(givenUp.code).toBe(1);
    const typed = Buffer.concat([Buffer.from("xy\x7f\x7f"), secret(), Buffer.from("\r")]);
    const { code, output } = await runInTerminal(["unseal", "--url", url], typed);
    expect(output).toContain("The vault is open.");
    expect(output).not.toContain(secret().toString());
    expect(output).not.toMatch(/xy|abc/);
    expect(code).toBe(0);
    expect(await makeKey("typed-by-hand")).toHaveProperty("key_id");
  },
);

test("the chain is checked without a PIN file by a PIN on standard input", async () => {
  expect(await run(["audit", "verify", "--json"], pin)).toMatchObject({
    code: 0,
    output: expect.stringContaining('"intact":true'),
  });
  const wrong = await run(["audit", "verify"], Buffer.from(`${"0".repeat(64)}\n`));
  expect(wrong).toMatchObject({
    code: 1,
    output: expect.stringMatching(/^keyvault: .*does not accept the PIN/),
  });
});
