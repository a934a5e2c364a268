import { appendFile, cp, readdir, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { loadConfig } from "../../../keyvault/config.ts";
import type { CreatedKey } from "../../../keyvault/keys/create.ts";
import type { Status } from "../../../keyvault/status.ts";
import { expectSigns } from "../backup/backup_support.ts";
import { cli } from "../command_line.ts";
import { createHome, startVault, type TestVault } from "../fixture.ts";
import { readPod, startLocally } from "./example_pod.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let vault: TestVault;
let key: CreatedKey;

beforeAll(async () => {
  vault = await startVault();
  key = await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "kept", ceiling: ["data:read"] });
});
afterAll(() => vault.close());

test("the Job of audit_verify.yaml checks a running vault's audit against logged heads, and fails if one is missing", async () => {
  const pod = await readPod("audit_verify.yaml");
  const root = join(vault.home.dir, "root");
  const local = await startLocally(pod, root);
  const { config } = vault.home;
  await writeFile(join(root, "run/secrets/database/url"), config.databaseUrl);
  await cp(config.token.pinFile, join(root, "run/secrets/pin/pin"));
  await cp(config.dataDir, join(root, "var/lib/keyvault/data"), { recursive: true });
  const [verify] = pod.containers;
  const heads = join(root, "etc/keyvault/heads/heads");
  const line = (seq: number, mac: string) =>
    `${JSON.stringify({ part: "keyvault", event: "audit_head", seq, mac, why: "time" })}\n`;
  const { audit } = JSON.parse(
    (await cli(vault.home, "status", "--json", "--url", vault.url)).stdout,
  ) as Status;
  await writeFile(heads, line(audit.records, audit.head ?? ""));
  expect((await local.run(verify)).stdout).toMatch(
    /are intact, and the heads noted before are among them \(1\)/,
  );

  await appendFile(heads, line(audit.records + 100, "0".repeat(64)));
  await expect(local.run(verify)).rejects.toMatchObject({
    code: 1,
    stdout: expect.stringContaining("were cut off"),
  });
});

test("the Job of restore.yaml restores and verifies a backup, and the vault then starts sealed and signs", async () => {
  const fresh = await createHome({ made: "empty" });
  onTestFinished(() => fresh.remove());
  const root = join(fresh.dir, "root");
  const pod = await readPod("restore.yaml");
  await startLocally(pod, root);
  await cli(vault.home, "backup", "key", join(root, "run/secrets/recovery/recovery.key"));
  const folder = join(root, "backups");
  await cli(vault.home, "backup", "create", "--out-dir", folder, "--url", vault.url);
  const [backup = ""] = await readdir(folder);
  await writeFile(join(root, "run/secrets/database/url"), fresh.config.databaseUrl);
  await writeFile(join(root, "run/secrets/database/migrationUrl"), fresh.config.migrationDatabaseUrl);
  await cp(vault.home.config.token.pinFile, join(root, "run/secrets/pin/pin"));
  const local = await startLocally(pod, root, [
    [basename(pod.initContainers?.[0]?.args?.[2] ?? ""), backup],
    ["0123456789abcdef0123456789abcdef", key.attestation.attested_by],
  ]);
  const [restore] = pod.initContainers ?? [];
  const [verify] = pod.containers;
  expect((await local.run(restore)).stdout).toMatch(/Restored the vault of .*: 2 keys of 2 tenants/);
  expect((await local.run(verify)).stdout).toMatch(/All \d+ records are intact/);
  await expect(local.run(restore)).rejects.toThrow(/There is a token in/);

  const { KEYVAULT_DATABASE_URL: _, KEYVAULT_MIGRATION_DATABASE_URL: __, ...own } = fresh.environment;
  const environment = {
    ...own,
    ...local.settingsOf(verify),
    KEYVAULT_PIN_FILE: "/none/pin",
  };
  const steps = await cli({ environment }, "init", "--no-pin", "--no-certificates", "--json");
  expect(JSON.parse(steps.stdout.split("\n")[1] ?? "")).toEqual({
    step: "token",
    created: [],
    absent: ["pin"],
  });
  const tls = join(root, "tls");
  await cp(vault.home.config.tlsDir, tls, { recursive: true });
  const config = loadConfig({
    ...environment,
    KEYVAULT_TLS_CA_FILE: join(tls, "ca.pem"),
    KEYVAULT_TLS_CERT_FILE: join(tls, "server.pem"),
    KEYVAULT_TLS_KEY_FILE: join(tls, "server.key"),
  });
  const restored = await startVault({ ...fresh, config });
  try {
    expect(restored.sealing.state()?.reason).toBe("no_pin_file");
    const caller = ["--url", restored.url, "--ca", config.tls.caFile, "--cert", join(tls, "admin.pem")];
    const pin = join(root, "run/secrets/pin/pin");
    expect((await cli({ environment: {} }, "unseal", "--pin-file", pin, ...caller)).stdout).toBe(
      "The vault is open.\n",
    );
    await expectSigns(restored, key, vault.api);
  } finally {
    await restored.stop();
  }
});
