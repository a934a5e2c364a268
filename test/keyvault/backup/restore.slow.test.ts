import { generateKeyPairSync } from "node:crypto";
import { existsSync, statSync } from "node:fs";
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { migrate, migrationNames } from "../../../keyvault/db/migrate.ts";
import type { CreatedKey } from "../../../keyvault/keys/create.ts";
import { cli } from "../command_line.ts";
import {
  createHome,
  issueIdentity,
  SILENT,
  startVault,
  type TestVault,
  unfinishedTokens,
  type VaultHome,
} from "../fixture.ts";
import { call } from "../http/caller_support.ts";
import { expectNothing, expectSigns, sealLines } from "./backup_support.ts";

vi.setConfig({ testTimeout: 120_000 });

let vault: TestVault;
let agent: CreatedKey;
let root: CreatedKey;
let backup: string;
let recoveryKey: string;
const fresh: VaultHome[] = [];

beforeAll(async () => {
  vault = await startVault();
  agent = await vault.makeAgent("acc-1");
  root = await vault.makeKey({ tenant: "acc-1", purpose: "account_root", label: "root" });
  backup = join(vault.home.dir, "backup");
  recoveryKey = join(vault.home.dir, "recovery.key");
}, 120_000);
afterAll(async () => {
  await vault.close();
  for (const home of fresh) await home.remove();
});

/** Creates a machine without a vault, but with the PIN of the original vault. */
async function freshHome(): Promise<VaultHome> {
  const home = await createHome({ made: "empty" });
  fresh.push(home);
  await mkdir(home.config.dataDir, { recursive: true, mode: 0o700 });
  await copyFile(vault.home.config.token.pinFile, home.config.token.pinFile);
  return home;
}

const restore = (home: VaultHome, file = backup, key = recoveryKey, ...origin: string[]) => {
  const named = origin.length > 0 ? origin : ["--service-key", agent.attestation.attested_by];
  return cli(home, "backup", "restore", file, "--recovery-key", key, ...named);
};

/** Signs a revocation list of certificates that never expire. */
const signList = ({ post, now }: TestVault, revoked_certs: string[]) =>
  post(`/v1/keys/${root.key_id}/sign/revocation-list`, {
    tenant: "acc-1",
    updated_at: now(),
    revoked_certs,
    expires_at: revoked_certs.map(() => 0),
  });

/** Returns the paths in a folder, including the folder itself, that other users may read or write. */
async function openToOthers(folder: string): Promise<string[]> {
  const paths = [folder, ...(await readdir(folder, { recursive: true })).map((name) => join(folder, name))];
  expect(paths.length).toBeGreaterThan(3);
  return paths.filter((path) => (statSync(path).mode & 0o077) !== 0);
}

test("backup create without a recovery key writes nothing and names the command that creates the key", async () => {
  await expect(cli(vault.home, "backup", "create", backup, "--url", vault.url)).rejects.toThrow(
    /There is no recovery key: make one with "keyvault backup key"/,
  );
  expect(existsSync(backup)).toBe(false);
  await cli(vault.home, "backup", "key", recoveryKey);
  await expect(cli(vault.home, "backup", "key", recoveryKey)).rejects.toThrow(/exists already/);
  const other = join(vault.home.dir, "other.key");
  const { recoveryKeyFile } = vault.home.config;
  await expect(cli(vault.home, "backup", "key", other)).rejects.toThrow(`${recoveryKeyFile} exists already`);
  expect(existsSync(other)).toBe(false);
});

test("a vault restored on a new machine creates signatures that are valid for the original public key", async () => {
  expect((await signList(vault, ["cert-1"])).status).toBe(200);
  await cli(vault.home, "backup", "create", backup, "--url", vault.url);
  await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "made after the backup" });
  const home = await freshHome();
  const { stdout } = await restore(home);
  expect(stdout).toMatch(/Restored the vault of .*: 3 keys of 2 tenants, \d+ audit records/);
  expect(await openToOthers(home.config.token.dir)).toEqual([]);
  expect((await cli(home, "audit", "verify")).stdout).toMatch(/records are intact/);
  await cli(home, "init");
  const restored = await startVault(home);
  try {
    await expectSigns(restored, agent);
    restored.clock.move(1);
    expect((await signList(restored, ["cert-2"])).status, "it lacks what was revoked").toBe(403);
    expect((await signList(restored, ["cert-1", "cert-2"])).status).toBe(200);
    expect((await restored.verifyAudit()).intact).toBe(true);
  } finally {
    await restored.stop();
  }
});

test("a restore does not replace or change an existing vault", async () => {
  await expect(restore(vault.home)).rejects.toThrow(
    /There is a token in .*: restore where there is no vault yet/,
  );
  const home = await freshHome();
  await restore(home);
  await rm(home.config.token.dir, { recursive: true });
  await expect(restore(home)).rejects.toThrow(/database holds a vault already/);
  expect(existsSync(home.config.token.dir)).toBe(false);
});

test("a restore rejects a backup that was altered, cut off, lengthened or encrypted to a different key, and leaves nothing behind", async () => {
  const whole = await readFile(backup);
  const flipped = Buffer.from(whole);
  flipped[whole.length >> 1]! ^= 1;
  const other = join(vault.home.dir, "other.key");
  const elsewhere = await createHome({ made: "empty" });
  fresh.push(elsewhere);
  await mkdir(elsewhere.config.dataDir, { recursive: true });
  await cli(elsewhere, "backup", "key", other);
  const tries: [Buffer, RegExp, string?][] = [
    [flipped, /damaged at part/],
    [whole.subarray(0, -1), /cut off/],
    [Buffer.concat([whole, Buffer.from([0])]), /has data after its end/],
    [Buffer.from("something else"), /cut off|not a backup/],
    [whole, /for another recovery key/, other],
  ];
  const home = await freshHome();
  for (const [bytes, expected, key] of tries) {
    const file = join(vault.home.dir, "odd");
    await writeFile(file, bytes);
    await expect(restore(home, file, key)).rejects.toThrow(expected);
    await expectNothing(home);
  }
});

test("a backup contains no readable text and no PIN, and the audit names who requested the backup", async () => {
  const bytes = await readFile(backup);
  const pin = (await readFile(vault.home.config.token.pinFile, "utf8")).trim();
  for (const text of [pin, agent.key_id, "manifest", "acc-1"]) expect(bytes.includes(text), text).toBe(false);
  const rows = await vault.home.sql(
    "select role, caller, outcome from audit where statement = 'backup' order by seq",
  );
  expect(rows).toEqual([
    { role: "admin", caller: "admin", outcome: "policy_violation" },
    { role: "admin", caller: "admin", outcome: "granted" },
    { role: "admin", caller: "admin", outcome: "granted" },
  ]);
  const auditor = await issueIdentity(vault.home, { kind: "client", role: "auditor", name: "audit" });
  for (const client of [auditor, vault.api]) {
    expect((await call(`${vault.url}/v1/backup`, client, { method: "POST", body: {} })).status).toBe(403);
  }
});

type Failing = { status?: number; origin?: string[] };

async function failure(
  home: VaultHome,
  file: string,
  key: string,
  { status = 1, origin = [] }: Failing = {},
): Promise<string> {
  const failed = await restore(home, file, key, ...origin).then(
    () => undefined,
    (error: { code: number; stderr: string }) => error,
  );
  expect(failed?.code).toBe(status);
  expect(failed?.stderr.trim().split("\n")).toHaveLength(1);
  return failed?.stderr ?? "";
}

test("a restore reports a missing file, a folder or a wrong recovery key in one line", async () => {
  const home = await freshHome();
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const other = join(home.dir, "other.key");
  await writeFile(other, privateKey.export({ type: "pkcs8", format: "pem" }));
  expect(await failure(home, join(home.dir, "none"), recoveryKey)).toMatch(/none: there is no such file/);
  expect(await failure(home, home.dir, recoveryKey)).toMatch(/: it is a folder/);
  expect(await failure(home, backup, join(home.dir, "none"))).toMatch(/none: there is no such file/);
  for (const key of [other, vault.home.config.recoveryKeyFile, backup]) {
    expect(await failure(home, backup, key)).toMatch(/is not the private half of a recovery key/);
  }
  expect(existsSync(home.config.token.dir)).toBe(false);
  expect((await restore(home)).stdout).toMatch(/Restored the vault of/);
});

test("a restore whose commit fails leaves nothing behind and can be repeated", async () => {
  const home = await freshHome();
  await migrate(home.config, SILENT);
  await home.sql(`
    create function refuse() returns trigger language plpgsql as $$ begin RAISE SQLSTATE '53100'; end $$;
    create constraint trigger at_commit after insert on audit DEFERRABLE INITIALLY DEFERRED
      for each row execute function refuse()`);
  expect(await failure(home, backup, recoveryKey, { status: 3 })).toMatch(/its disk is full/);
  expect(existsSync(home.config.token.dir)).toBe(false);
  expect(await unfinishedTokens(home)).toEqual([]);
  await home.sql("drop function refuse() cascade");
  expect((await restore(home)).stdout).toMatch(/Restored the vault of/);
});

test("a restore rejects a backup whose token belongs to a different kind of PKCS#11 module", async () => {
  const elsewhere = await freshHome();
  elsewhere.environment.KEYVAULT_PKCS11_MODULE = join(elsewhere.dir, "another.so");
  await writeFile(elsewhere.environment.KEYVAULT_PKCS11_MODULE, "");
  expect(await failure(elsewhere, backup, recoveryKey)).toMatch(
    /holds a SoftHSM token, .*KEYVAULT_PKCS11_MODULE/,
  );
  expect(await unfinishedTokens(elsewhere)).toEqual([]);

  const home = await freshHome();
  const without = join(home.dir, "without");
  const manifest = {
    kind: "manifest",
    version: 1,
    created_at: "2026-01-01T00:00:00.000Z",
    migrations: migrationNames(),
    head: { seq: 0, mac: "00".repeat(32) },
    token: {},
  };
  const publicKey = await readFile(vault.home.config.recoveryKeyFile, "utf8");
  await writeFile(without, await sealLines([manifest, { kind: "end", counts: {} }], publicKey));
  expect(await failure(home, without, recoveryKey, { origin: ["--unsigned"] })).toMatch(
    /holds no token.*KEYVAULT_PKCS11_MODULE/,
  );
  expect(existsSync(home.config.token.dir)).toBe(false);
  await restore(elsewhere, without, recoveryKey, "--unsigned");
});

test("backup create does not request a backup if it cannot write the file", async () => {
  const count = async () => (await vault.home.sql("select from audit where statement = 'backup'")).length;
  const before = await count();
  const create = (file: string) => cli(vault.home, "backup", "create", file, "--url", vault.url);
  await expect(create(join(vault.home.dir, "no folder", "backup"))).rejects.toThrow(
    /keyvault: .*no folder: there is no such folder\n$/,
  );
  await expect(create(backup)).rejects.toThrow(/exists already/);
  expect(await count()).toBe(before);
});
