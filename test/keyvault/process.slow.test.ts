import { readdirSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
import { verifyHybrid } from "../../src/protocol/keys/hybrid.ts";
import { createVaultClient, type VaultClient } from "../../src/vault/client.ts";
import { createHome, readIdentity, type VaultHome } from "./fixture.ts";
import { childrenOf, runProgram, type ServedVault, serveProgram } from "./program.ts";

vi.setConfig({ testTimeout: 120_000 });

let home: VaultHome;
let client: VaultClient;
let served: ServedVault;

beforeAll(async () => {
  home = await createHome();
});
afterEach(async () => {
  await client.close();
  await served.kill();
});
afterAll(() => home.remove());

async function start(environment: Record<string, string> = {}): Promise<void> {
  served = await serveProgram(home, { environment: { KEYVAULT_LOG_LEVEL: "debug", ...environment } });
  client = createVaultClient({ url: served.url, ...readIdentity(home, "api") });
}

const isAlive = (pid: number): boolean =>
  readdirSync("/proc").includes(String(pid)) && !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
const challenge = () => ({
  challenge: Buffer.alloc(32, 1).toString("base64"),
  challenge_at: Math.floor(Date.now() / 1000),
});
const makeKey = (name: string, tenant = "acc-1") =>
  client.createKey({ tenant, purpose: "agent", label: name, ceiling: ["data:read"] }, name);
const auditVerify = () => runProgram(home, ["audit", "verify", "--json"]);

test("the PIN appears in no argument, environment, log line or answer, and only the child loads the PKCS#11 library", async () => {
  const pin = (await readFile(home.config.token.pinFile, "utf8")).trim();
  await start();
  const { key_id: keyId } = await makeKey("some-name");
  await client.signChallenge({ tenant: "acc-1", keyId }, challenge());
  const [token = 0] = childrenOf(served.pid);
  const read = (pid: number, file: string) => readFileSync(`/proc/${pid}/${file}`, "utf8");
  expect(read(token, "cmdline")).toMatch(/keyvault\/token\/child\/main\.ts/);
  for (const pid of [served.pid, token]) {
    for (const file of ["cmdline", "environ"]) expect(read(pid, file), file).not.toContain(pin);
  }
  const names = read(token, "environ")
    .split("\0")
    .filter(Boolean)
    .map((line) => line.split("=")[0]);
  expect(names).toEqual(["SOFTHSM2_CONF"]);
  expect(read(served.pid, "maps")).not.toMatch(/softhsm|pkcs11/);
  expect(read(token, "maps")).toMatch(/libsofthsm2/);
  served.child.kill("SIGTERM");
  expect(await served.ended).toBe(0);
  expect(served.output()).toContain('"event":"stopped"');
  expect(served.output()).not.toContain(pin);
  expect(served.output()).not.toContain(new URL(home.config.databaseUrl).password);
});

test("a vault killed while it signs leaves a valid chain, working keys and no child process", async () => {
  await start();
  const key = await makeKey("kept-name");
  const reference = { tenant: "acc-1", keyId: key.key_id };
  const [token = 0] = childrenOf(served.pid);
  let signed = 0;
  const load = Array.from({ length: 8 }, async () => {
    for (;;) {
      const answer = await client.signChallenge(reference, challenge()).catch(() => undefined);
      if (answer === undefined) return;
      signed += 1;
      if (signed === 60) served.child.kill("SIGKILL");
    }
  });
  await Promise.all(load);
  expect(signed).toBeGreaterThanOrEqual(60);
  await expect.poll(() => isAlive(token), { timeout: 5_000 }).toBe(false);
  const [row] = await home.sql<{ granted: number }>(
    "select count(*)::int as granted from audit where statement = 'challenge' and outcome = 'granted'",
  );
  expect(row?.granted).toBeGreaterThanOrEqual(signed);
  await client.close();
  await start();
  expect(await makeKey("kept-name")).toEqual(key);
  const binding = challenge();
  const again = await client.signChallenge(reference, binding);
  expect(await verifyHybrid(key.public_key, challengeSignBytes(binding), again.challenge_sig)).toBe(true);
  expect(await auditVerify()).toMatchObject({ code: 0, output: expect.stringContaining('"intact":true') });
});

test("a vault killed while it creates keys has a record for every key, and has every key that it returned", async () => {
  await start();
  const answered: { tenant: string; keyId: string }[] = [];
  const load = Array.from({ length: 6 }, async (_, maker) => {
    for (let round = 0; ; round += 1) {
      const tenant = `maker-${maker}`;
      const made = await makeKey(`${tenant}-${round}`, tenant).catch(() => undefined);
      if (made === undefined) return;
      answered.push({ tenant, keyId: made.key_id });
      if (answered.length === 25) served.child.kill("SIGKILL");
    }
  });
  await Promise.all(load);
  const keys = (await home.sql<{ key_id: string }>("select key_id from keys")).map(({ key_id }) => key_id);
  const recorded = await home.sql<{ key_id: string }>(
    "select distinct key_id from audit where statement = 'key_create' and outcome = 'granted'",
  );
  expect(new Set(recorded.map(({ key_id }) => key_id))).toEqual(new Set(keys));
  expect(keys).toEqual(expect.arrayContaining(answered.map(({ keyId }) => keyId)));
  expect(
    await home.sql("select from tenants t where not exists (select from keys k where k.tenant = t.tenant)"),
  ).toEqual([]);
  await client.close();
  await start();
  for (const reference of answered.slice(0, 3)) {
    expect(await client.signChallenge(reference, challenge())).toHaveProperty("challenge_sig");
  }
  expect((await auditVerify()).code).toBe(0);
});

test("the vault answers running calls before it stops, and by default does not stop when standard input closes", async () => {
  await start();
  served.child.stdin?.end();
  const { key_id: keyId } = await makeKey("some-name");
  const flight = Array.from({ length: 32 }, () =>
    client.signChallenge({ tenant: "acc-1", keyId }, challenge()),
  );
  await flight[0];
  served.child.kill("SIGTERM");
  const results = await Promise.allSettled(flight);
  expect(results.filter(({ status }) => status === "fulfilled").length).toBeGreaterThan(1);
  expect(await served.ended).toBe(0);
});

test("the vault reports a failure in one line with its exit status, and can stop when standard input closes", async () => {
  await start({ KEYVAULT_EXIT_ON_STDIN_CLOSE: "1" });
  const other = await createHome();
  const failures: [VaultHome, string[], Record<string, string>, RegExp, code?: number][] = [
    [home, ["serve"], {}, /Another vault process writes to this database/],
    [home, ["serve"], { KEYVAULT_DATA_DIR: join(home.dir, "none") }, /There is no token in/],
    [
      home,
      ["serve"],
      { KEYVAULT_PKCS11_MODULE: "/none.so" },
      /KEYVAULT_PKCS11_MODULE: names a file that does not exist/,
      78,
    ],
    [
      home,
      ["serve"],
      { KEYVAULT_DATABASE_URL: "postgres://u:hunter2@127.0.0.1:1/d" },
      /nothing listens there/,
      3,
    ],
    [home, ["serve"], { KEYVAULT_DATA_DIR: "" }, /KEYVAULT_DATA_DIR/, 78],
    [
      home,
      ["serve"],
      { KEYVAULT_TLS_KEY_FILE: join(home.config.tlsDir, "api.key") },
      /KEYVAULT_TLS_KEY_FILE: .*api\.key is not the key of/,
      78,
    ],
    [home, ["status", "--url", "https://localhost:1"], {}, /does not answer/, 3],
    [
      other,
      ["serve"],
      { KEYVAULT_PORT: String(served.port) },
      new RegExp(`KEYVAULT_PORT: port ${served.port} .* is in use`),
      78,
    ],
  ];
  for (const [place, args, environment, expected, code = 1] of failures) {
    const ended = await runProgram(place, args, { environment });
    expect(ended).toEqual({ code, output: expect.stringMatching(expected) });
    expect(ended.output).not.toMatch(/hunter2|\n\s+at /);
    const lines = ended.output.trim().split("\n");
    expect(lines.filter((line) => line.startsWith("keyvault: "))).toHaveLength(1);
  }
  await other.remove();
  served.child.stdin?.end();
  expect(await served.ended).toBe(0);
});
