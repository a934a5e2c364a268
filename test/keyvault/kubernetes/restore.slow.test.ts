import { execFile } from "node:child_process";
import { cp, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { parseAllDocuments } from "yaml";
import { unixSeconds } from "../../../keyvault/clock.ts";
import { loadConfig } from "../../../keyvault/config.ts";
import type { CreatedKey } from "../../../keyvault/keys/creation/create.ts";
import { challengeSignBytes } from "../../../src/protocol/documents/challenge.ts";
import { type HybridSignature, verifyHybrid } from "../../../src/protocol/keys/hybrid.ts";
import type { Container, PodSpec } from "../../chart/render.ts";
import { createHome, readIdentity, startVault, type TestVault, type VaultHome } from "../fixture.ts";
import { call } from "../http/caller_support.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const MAIN = fileURLToPath(new URL("../../../keyvault/main.ts", import.meta.url));
const EXAMPLE = new URL("../../../docs/examples/keyvault/restore.yaml", import.meta.url);

let vault: TestVault;
let key: CreatedKey;
let fresh: VaultHome;
let pod: PodSpec;
/** The folder that is the pod's root, and what of the example is replaced by what there is. */
let root: string;
let replaced: [string, string][];

beforeAll(async () => {
  [vault, fresh] = await Promise.all([startVault(), createHome({ made: "empty" })]);
  key = await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "kept", ceiling: ["data:read"] });
  root = join(fresh.dir, "root");
  const folders = [
    "backups",
    "run/secrets/database",
    "run/secrets/recovery",
    "run/secrets/pin",
    "var/lib/keyvault",
  ];
  for (const folder of folders) await mkdir(join(root, folder), { recursive: true });
  const text = await readFile(EXAMPLE, "utf8");
  const job = parseAllDocuments(text).map((document) => document.toJS({ maxAliasCount: 20 }))[1];
  pod = job.spec.template.spec as PodSpec;
  const recovery = join(root, "run/secrets/recovery/recovery.key");
  await run(vault.home.environment, "backup", "key", recovery);
  await run(
    vault.home.environment,
    "backup",
    "create",
    "--out-dir",
    join(root, "backups"),
    "--url",
    vault.url,
  );
  const [backup = ""] = await readdir(join(root, "backups"));
  await writeFile(join(root, "run/secrets/database/url"), fresh.config.databaseUrl);
  await writeFile(join(root, "run/secrets/database/migrationUrl"), fresh.config.migrationDatabaseUrl);
  await cp(vault.home.config.token.pinFile, join(root, "run/secrets/pin/pin"));
  const wanted = basename(pod.initContainers?.[0]?.args?.[2] ?? "");
  replaced = [
    [wanted, backup],
    ["0123456789abcdef0123456789abcdef", key.attestation.attested_by],
  ];
});
afterAll(() => Promise.all([vault.close(), fresh.remove()]));

const run = (environment: Record<string, string>, ...args: string[]) =>
  promisify(execFile)(process.execPath, [MAIN, ...args], { env: environment });

/** A path of the pod, or what names one, as it is on this machine. */
const here = (text: string) =>
  replaced
    .reduce((done, [from, to]) => done.replace(from, to), text)
    .replace(/(^|=)(\/(?:backups|run|var)\/)/, (_, before, path) => `${before}${root}${path}`);
const settingsOf = ({ env = [] }: Container) =>
  Object.fromEntries(env.map(({ name, value = "" }) => [name, here(value)]));
const runContainer = (container: Container | undefined) => {
  if (container === undefined) throw new Error("The example has no such container");
  return run(settingsOf(container), ...(container.args ?? []).map(here));
};

test("the example's Job restores a backup and proves it, and the vault's own pod then starts sealed and signs", async () => {
  const [restore] = pod.initContainers ?? [];
  const [verify] = pod.containers;
  expect((await runContainer(restore)).stdout).toMatch(/Restored the vault of .*: 2 keys of 2 tenants/);
  expect((await runContainer(verify)).stdout).toMatch(/All \d+ records hold/);
  await expect(runContainer(restore)).rejects.toThrow(/There is a token in/);

  const environment = {
    ...fresh.environment,
    ...settingsOf(verify as Container),
    KEYVAULT_PIN_FILE: "/none/pin",
  };
  const steps = await run(environment, "init", "--no-pin", "--no-certificates", "--json");
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
    expect((await run({}, "unseal", "--pin-file", pin, ...caller)).stdout).toBe("The vault is open.\n");
    const binding = {
      challenge: Buffer.alloc(32, 1).toString("base64"),
      challenge_at: unixSeconds(restored.clock.now()),
    };
    const path = `${restored.url}/v1/keys/${key.key_id}/sign/challenge`;
    const body = { tenant: "acc-1", ...binding };
    const signed = await call(path, readIdentity(vault.home, "api"), { method: "POST", body });
    const signature = signed.body.challenge_sig as HybridSignature;
    expect(await verifyHybrid(key.public_key, challengeSignBytes(binding), signature)).toBe(true);
  } finally {
    await restored.stop();
  }
});

test("the example's pod is restricted, and reads each Secret from a file", () => {
  expect(pod.automountServiceAccountToken).toBe(false);
  expect(pod.securityContext).toMatchObject({
    runAsNonRoot: true,
    seccompProfile: { type: "RuntimeDefault" },
  });
  for (const container of [...(pod.initContainers ?? []), ...pod.containers]) {
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
    const folders = container.volumeMounts?.map(({ mountPath }) => mountPath) ?? [];
    for (const { name, value = "" } of container.env ?? []) {
      expect(
        folders.some((folder) => value.startsWith(`${folder}/`)),
        name,
      ).toBe(true);
    }
  }
});
