import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
import { verifyHybrid } from "../../src/protocol/keys/hybrid.ts";
import { createVaultClient, type VaultClient } from "../../src/vault/client.ts";
import { createHome, readIdentity, type VaultHome } from "./fixture.ts";

const MAIN = fileURLToPath(new URL("../../keyvault/main.ts", import.meta.url));

vi.setConfig({ testTimeout: 120_000 });

let home: VaultHome;
let client: VaultClient | undefined;
const running = new Set<ChildProcess>();

beforeEach(async () => {
  home = await createHome();
});
afterEach(async () => {
  await client?.close();
  client = undefined;
  for (const child of running) child.kill("SIGKILL");
  await home.remove();
});

type Event = { event?: string; port?: number };
type Started = { child: ChildProcess; port: number; output: () => string };

function start(
  args: string[],
  environment: Record<string, string> = {},
): { child: ChildProcess; output: () => string } {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: { ...home.environment, KEYVAULT_LOG_LEVEL: "debug", ...environment },
    stdio: ["pipe", "pipe", "pipe"],
  });
  running.add(child);
  child.once("exit", () => running.delete(child));
  let output = "";
  child.stdout!.on("data", (text: Buffer) => {
    output += text.toString();
  });
  child.stderr!.on("data", (text: Buffer) => {
    output += text.toString();
  });
  return { child, output: () => output };
}

async function startServing(environment: Record<string, string> = {}): Promise<Started> {
  const { child, output } = start(["serve"], environment);
  const port = await new Promise<number>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`exit ${code}: ${output()}`)));
    createInterface({ input: child.stdout! }).on("line", (line) => {
      const event = JSON.parse(line) as Event;
      if (event.event === "listening") resolve(event.port!);
    });
  });
  const { ca, cert, key } = readIdentity(home, "api");
  await client?.close();
  client = createVaultClient({ url: `https://localhost:${port}`, ca, cert, key });
  return { child, port, output };
}

const exited = async (child: ChildProcess) =>
  (child.exitCode ?? child.signalCode ?? (await once(child, "exit"))[0]) as unknown;
const childrenOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number);
const isAlive = (pid: number): boolean =>
  readdirSync("/proc").includes(String(pid)) && !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
const challenge = () => ({
  challenge: Buffer.alloc(32, 1).toString("base64"),
  challenge_at: Math.floor(Date.now() / 1000),
});
const auditVerify = async (...args: string[]) => {
  const { child, output } = start(["audit", "verify", "--json", ...args]);
  return { code: await exited(child), output: output() };
};

test("the PIN is in no argument, environment, log line or answer of parent or child", async () => {
  const pin = (await readFile(home.config.token.pinFile, "utf8")).trim();
  const { child, output } = await startServing();
  const key = await client!.createKey(
    { tenant: "acc-1", purpose: "agent", label: "agent", ceiling: ["data:read"] },
    "some-name",
  );
  await client!.signChallenge({ tenant: "acc-1", keyId: key.key_id }, challenge());
  const [token] = childrenOf(child.pid!);
  expect(readFileSync(`/proc/${token}/cmdline`, "utf8")).toMatch(/keyvault\/token\/child\/main\.ts/);
  for (const pid of [child.pid!, token!]) {
    for (const file of ["cmdline", "environ"]) {
      expect(readFileSync(`/proc/${pid}/${file}`, "utf8"), file).not.toContain(pin);
    }
  }
  expect(
    readFileSync(`/proc/${token}/environ`, "utf8")
      .split("\0")
      .filter(Boolean)
      .map((line) => line.split("=")[0]),
  ).toEqual(["SOFTHSM2_CONF"]);
  child.kill("SIGTERM");
  expect(await exited(child)).toBe(0);
  expect(output()).toContain('"event":"stopped"');
  expect(output()).not.toContain(pin);
  expect(output()).not.toContain(new URL(home.config.databaseUrl).password);
});

test("only the child loads the PKCS#11 library", async () => {
  const { child } = await startServing();
  const maps = (pid: number) => readFileSync(`/proc/${pid}/maps`, "utf8");
  expect(maps(child.pid!)).not.toMatch(/softhsm|pkcs11/);
  expect(maps(childrenOf(child.pid!)[0]!)).toMatch(/libsofthsm2/);
});

test("a vault killed while it signs leaves a chain that verifies, keys that work, and no orphan", async () => {
  const first = await startServing();
  const key = await client!.createKey(
    { tenant: "acc-1", purpose: "agent", label: "agent", ceiling: ["data:read"] },
    "kept-name",
  );
  const reference = { tenant: "acc-1", keyId: key.key_id };
  const [token] = childrenOf(first.child.pid!);
  let signed = 0;
  const load = Array.from({ length: 8 }, async () => {
    for (;;) {
      const answer = await client!.signChallenge(reference, challenge()).catch(() => undefined);
      if (answer === undefined) return;
      signed += 1;
      if (signed === 60) first.child.kill("SIGKILL");
    }
  });
  await Promise.all(load);
  expect(signed).toBeGreaterThanOrEqual(60);
  await expect.poll(() => isAlive(token!), { timeout: 5_000 }).toBe(false);

  const [row] = await home.sql<{ granted: number }>(
    "select count(*)::int as granted from audit where statement = 'challenge' and outcome = 'granted'",
  );
  expect(row?.granted).toBeGreaterThanOrEqual(signed);
  await startServing();
  expect(
    await client!.createKey(
      { tenant: "acc-1", purpose: "agent", label: "agent", ceiling: ["data:read"] },
      "kept-name",
    ),
  ).toEqual(key);
  const binding = challenge();
  const again = await client!.signChallenge(reference, binding);
  expect(await verifyHybrid(key.public_key, challengeSignBytes(binding), again.challenge_sig)).toBe(true);
  expect(await auditVerify()).toMatchObject({ code: 0, output: expect.stringContaining('"intact":true') });
});

test("a vault killed while it makes keys has, for every key it answered, a key with its record, and no key without one", async () => {
  const { child } = await startServing();
  const answered: string[] = [];
  const load = Array.from({ length: 6 }, async (_, maker) => {
    for (let round = 0; ; round += 1) {
      const name = `maker-${maker}-${round}`;
      const made = await client!
        .createKey({ tenant: `acc-${maker}`, purpose: "agent", label: name, ceiling: [] }, name)
        .catch(() => undefined);
      if (made === undefined) return;
      answered.push(made.key_id);
      if (answered.length === 25) child.kill("SIGKILL");
    }
  });
  await Promise.all(load);
  const keys = await home.sql<{ key_id: string }>("select key_id from keys");
  const recorded = await home.sql<{ key_id: string }>(
    "select key_id from audit where statement = 'key_create' and outcome = 'granted'",
  );
  expect(new Set(recorded.map(({ key_id }) => key_id))).toEqual(new Set(keys.map(({ key_id }) => key_id)));
  expect(keys.map(({ key_id }) => key_id)).toEqual(expect.arrayContaining(answered));
  expect(
    await home.sql("select from tenants t where not exists (select from keys k where k.tenant = t.tenant)"),
  ).toEqual([]);
  await startServing();
  for (const keyId of answered.slice(0, 3)) {
    const { tenant } = (
      await home.sql<{ tenant: string }>("select tenant from keys where key_id = $1", [keyId])
    )[0]!;
    expect(await client!.signChallenge({ tenant, keyId }, challenge())).toHaveProperty("challenge_sig");
  }
  expect((await auditVerify()).code).toBe(0);
});

test("calls in flight are answered before a stop, and the port is free after it", async () => {
  const { child } = await startServing();
  const key = await client!.createKey(
    { tenant: "acc-1", purpose: "agent", label: "agent", ceiling: ["data:read"] },
    "some-name",
  );
  const flight = Array.from({ length: 32 }, () =>
    client!.signChallenge({ tenant: "acc-1", keyId: key.key_id }, challenge()),
  );
  await flight[0];
  child.kill("SIGTERM");
  const results = await Promise.allSettled(flight);
  expect(results.filter(({ status }) => status === "fulfilled").length).toBeGreaterThan(1);
  expect(await exited(child)).toBe(0);
});

test("ends when its standard input does, if set to, and otherwise stays", async () => {
  const tied = await startServing({ KEYVAULT_EXIT_ON_STDIN_CLOSE: "1" });
  tied.child.stdin!.end();
  expect(await exited(tied.child)).toBe(0);
  const free = await startServing();
  free.child.stdin!.end();
  await client!.health();
  expect(free.child.exitCode).toBeNull();
});

test("says in one line what is wrong, and ends with 1, or 78 when a setting is wrong", async () => {
  const serving = await startServing();
  const failures: [string[], Record<string, string>, RegExp, code?: number][] = [
    [["serve"], {}, /Another vault process writes to this database/],
    [["serve"], { KEYVAULT_DATA_DIR: join(home.dir, "none") }, /There is no token in/],
    [["serve"], { KEYVAULT_PKCS11_MODULE: "/none.so" }, /\/none\.so cannot be loaded/],
    [["serve"], { KEYVAULT_DATABASE_URL: "postgres://u:hunter2@127.0.0.1:1/d" }, /nothing listens there/],
    [["serve"], { KEYVAULT_DATA_DIR: "" }, /KEYVAULT_DATA_DIR/, 78],
    [["status", "--url", "https://localhost:1"], {}, /does not answer/],
  ];
  for (const [args, environment, expected, code = 1] of failures) {
    const { child, output } = start(args, environment);
    expect(await exited(child), output()).toBe(code);
    expect(output()).toMatch(expected);
    expect(output()).not.toMatch(/hunter2|\n\s+at /);
    expect(
      output()
        .trim()
        .split("\n")
        .filter((line) => line.startsWith("keyvault: ")),
    ).toHaveLength(1);
  }
  serving.child.kill("SIGTERM");
  await exited(serving.child);
});

test("a port in use is named", async () => {
  const other = await startServing();
  const second = await createHome();
  const busy = spawn(process.execPath, [MAIN, "serve"], {
    env: { ...second.environment, KEYVAULT_PORT: String(other.port) },
  });
  let output = "";
  busy.stderr.on("data", (text: Buffer) => {
    output += text.toString();
  });
  expect(await exited(busy)).toBe(1);
  expect(output).toMatch(new RegExp(`The port ${other.port} .* is in use`));
  await second.remove();
});

test("the command line shows the status and finds a broken chain", async () => {
  const { port } = await startServing();
  await client!.createKey(
    { tenant: "acc-1", purpose: "agent", label: "agent", ceiling: ["data:read"] },
    "some-name",
  );
  const status = start(["status", "--json", "--url", `https://localhost:${port}`]);
  expect(await exited(status.child)).toBe(0);
  const { audit, keys } = JSON.parse(status.output()) as {
    audit: { records: number; head: string };
    keys: object;
  };
  expect(keys).toEqual({ tenants: 2, active: 2, disabled: 0, destroying: 0, destroyed: 0 });
  const head = `${audit.records}:${audit.head}`;
  expect(await auditVerify("--head", head)).toMatchObject({ code: 0 });
  expect(await auditVerify("--head", `${audit.records + 1}:${audit.head}`)).toMatchObject({
    code: 2,
    output: expect.stringContaining('"reason":"cut"'),
  });
  expect((await auditVerify("--head", "nonsense")).code).toBe(1);
  await home.sql(
    "alter table audit disable trigger audit_append_only; update audit set caller = 'mallory' where seq = 1",
  );
  expect(await auditVerify()).toMatchObject({ code: 2, output: expect.stringContaining('"seq":1') });
});
