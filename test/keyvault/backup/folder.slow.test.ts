import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { addBackup } from "../../../keyvault/commands/backup.ts";
import { migrationNames } from "../../../keyvault/db/migrate.ts";
import { cli } from "../command_line.ts";
import { issueIdentity, startVault, type TestVault } from "../fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

let vault: TestVault;
let recoveryKey: string;
let serviceKey: string;
/** Options for calls to the vault with a certificate of the role `backup`. */
let remote: string[];

/** Runs a command on a machine without settings of the vault. */
const run = (...args: string[]) => cli({ environment: {} }, "backup", ...args);
const lastBackup = async () => {
  const text = await (await fetch(`http://127.0.0.1:${vault.healthPort}/metrics`)).text();
  return Number(/^keyvault_last_backup_timestamp_seconds (\d+)$/m.exec(text)?.[1]);
};
const folderOf = async (name: string) => {
  const folder = join(vault.home.dir, name);
  await mkdir(folder);
  return folder;
};

beforeAll(async () => {
  vault = await startVault();
  recoveryKey = join(vault.home.dir, "recovery.key");
  await cli(vault.home, "backup", "key", recoveryKey);
  const nightly = { kind: "client", role: "backup", name: "nightly" } as const;
  const { ca, cert, key } = await issueIdentity(vault.home, nightly);
  const files = { "ca.pem": ca, "backup.pem": cert, "backup.key": key };
  for (const [name, text] of Object.entries(files)) await writeFile(join(vault.home.dir, name), text);
  const at = (name: string) => join(vault.home.dir, name);
  remote = ["--url", vault.url, "--ca", at("ca.pem"), "--cert", at("backup.pem")];
  serviceKey = vault.vault.service.keyId;
}, 60_000);
afterAll(() => vault.close());

test("backup create --out-dir names each file by its time, and --keep removes the oldest", async () => {
  const folder = await folderOf("kept");
  await writeFile(join(folder, "notes.txt"), "of somebody else");
  await writeFile(join(folder, "keyvault-copy.backup"), "of somebody else");
  const made: string[] = [];
  for (let count = 0; count < 3; count += 1) {
    const { stdout } = await run("create", "--out-dir", folder, "--keep", "2", "--json", ...remote);
    const { file, removed } = JSON.parse(stdout) as { file: string; removed: string[] };
    expect(removed).toEqual(count < 2 ? [] : [made[0]]);
    made.push(file);
  }
  const left = made.slice(1).map((file) => file.slice(folder.length + 1));
  expect((await readdir(folder)).sort()).toEqual([...left, "keyvault-copy.backup", "notes.txt"]);
  for (const file of made.slice(1)) {
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    await run("check", file, "--recovery-key", recoveryKey, "--service-key", serviceKey);
  }
});

test("backup create leaves the folder unchanged if it fails", async () => {
  const folder = await folderOf("failed");
  const { stdout } = await run("create", "--out-dir", folder, "--json", ...remote);
  const { file } = JSON.parse(stdout) as { file: string };
  await writeFile(join(folder, "keyvault-20260101T000000.000Z.backup"), "an older one");
  const before = await readdir(folder);
  const nobody = ["--url", "https://localhost:1", ...remote.slice(2)];
  await expect(run("create", "--out-dir", folder, "--keep", "1", ...nobody)).rejects.toThrow(
    /does not answer/,
  );
  expect(await readdir(folder)).toEqual(before);
  expect(existsSync(file)).toBe(true);
});

test("backup create removes leftovers of interrupted runs after an hour, but not files that are being written", async () => {
  const folder = await folderOf("cut");
  const now = new Date();
  const at = (name: string) => join(folder, `.keyvault-20260101T00000${name}.000Z.backup.unfinished`);
  await writeFile(at("1"), "left");
  await utimes(at("1"), now, new Date(now.getTime() - 3_600_001));
  await writeFile(at("2"), "being written");
  await utimes(at("2"), now, new Date(now.getTime() - 3_500_000));
  const take = async (file: string) => {
    await writeFile(file, "whole");
    expect(await readdir(folder)).toHaveLength(3);
    return 5;
  };
  const { file, removed } = await addBackup(folder, { take, now, keep: undefined });
  expect(removed).toEqual([at("1")]);
  expect((await readdir(folder)).map((name) => join(folder, name)).sort()).toEqual([at("2"), file].sort());
  expect(await readFile(file, "utf8")).toBe("whole");
});

test("backup check describes a backup, and rejects the same backups as a restore, with the same message", async () => {
  const folder = await folderOf("checked");
  const file = join(folder, "backup");
  await run("create", file, ...remote);
  const key = ["--recovery-key", recoveryKey];
  const signed = [...key, "--service-key", serviceKey];
  const { stdout } = await run("check", file, ...signed, "--json");
  const head = { seq: expect.any(Number), mac: expect.stringMatching(/^[0-9a-f]{64}$/) };
  expect(JSON.parse(stdout)).toEqual({ file, created_at: expect.any(String), signed_by: serviceKey, head });
  expect((await run("check", file, ...signed)).stdout).toContain(`signed by       ${serviceKey}`);
  await expect(run("check", file, ...key)).rejects.toThrow(/is signed by the service key/);
  await expect(run("check", file, ...key, "--service-key", "0".repeat(32))).rejects.toThrow(/not by 0{32}/);
  const bytes = await readFile(file);
  for (const [name, altered] of [
    ["cut", bytes.subarray(0, -1)],
    ["longer", Buffer.concat([bytes, Buffer.from("x")])],
    ["altered", Buffer.concat([bytes.subarray(0, 200), Buffer.from([bytes[200]! ^ 1]), bytes.subarray(201)])],
  ] as const) {
    await writeFile(join(folder, name), altered);
    const failed = await run("check", join(folder, name), ...signed).catch(
      (error: { code: number }) => error,
    );
    expect(failed, name).toMatchObject({ code: 1, stdout: "" });
  }
  await writeFile(join(folder, "recovery.key"), "nonsense");
  await expect(run("check", file, "--recovery-key", join(folder, "recovery.key"))).rejects.toThrow(
    /not the private half/,
  );
});

test("backup check rejects a backup with the tables of a newer version", async () => {
  const folder = await folderOf("later");
  const file = join(folder, "backup");
  await vault.home.sql("insert into schema_migrations (name) values ('0901_later')");
  try {
    await run("create", file, ...remote);
  } finally {
    await vault.home.sql("delete from schema_migrations where name = '0901_later'");
  }
  await expect(
    run("check", file, "--recovery-key", recoveryKey, "--service-key", serviceKey),
  ).rejects.toThrow(`that has 0901_later, this one ends with ${migrationNames().at(-1)}`);
});

test("backup create rejects a missing destination, two destinations and an invalid count", async () => {
  const folder = await folderOf("wrong");
  await expect(run("create", ...remote)).rejects.toThrow(/give a file, or --out-dir/);
  await expect(run("create", "file", "--out-dir", folder, ...remote)).rejects.toThrow(/give a file, or/);
  await expect(run("create", "file", "--keep", "2", ...remote)).rejects.toThrow(/--keep goes with --out-dir/);
  for (const count of ["0", "-1", "1.5", "many"]) {
    await expect(run("create", "--out-dir", folder, "--keep", count), count).rejects.toThrow(/1 to 10000/);
  }
  expect(await readdir(folder)).toEqual([]);
});

test("the backup metric shows the time of the last complete backup, even after a restart", async () => {
  const file = join(vault.home.dir, "measured");
  vault.clock.move(60);
  await run("create", file, ...remote);
  const made = Math.floor(vault.clock.at.getTime() / 1000);
  await expect.poll(lastBackup).toBe(made);
  await rm(file);
  vault.clock.move(60);
  await expect(run("create", join(vault.home.dir, "none", "file"), ...remote)).rejects.toThrow(
    /no such folder/,
  );
  expect(await lastBackup()).toBe(made);
  vault = await vault.restart();
  await expect.poll(lastBackup).toBe(made);
});
