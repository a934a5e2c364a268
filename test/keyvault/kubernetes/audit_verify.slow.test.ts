import { appendFile, cp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { Status } from "../../../keyvault/status.ts";
import type { PodSpec } from "../../chart/render.ts";
import { startVault, type TestVault } from "../fixture.ts";
import { type LocalPod, readPod, runKeyvault, startLocally } from "./example_pod.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let vault: TestVault;
let pod: PodSpec;
let local: LocalPod;
let heads: string;

beforeAll(async () => {
  [vault, pod] = await Promise.all([startVault(), readPod("audit_verify.yaml")]);
  const root = join(vault.home.dir, "root");
  local = await startLocally(pod, root);
  heads = join(root, "etc/keyvault/heads/heads");
  const { config } = vault.home;
  await writeFile(join(root, "run/secrets/database/url"), config.databaseUrl);
  await cp(config.token.pinFile, join(root, "run/secrets/pin/pin"));
  await cp(vault.home.environment.KEYVAULT_DATA_DIR ?? "", join(root, "var/lib/keyvault/data"), {
    recursive: true,
  });
});
afterAll(() => vault.close());

const line = (seq: number, mac: string) =>
  `${JSON.stringify({ part: "keyvault", event: "audit_head", seq, mac, why: "time" })}\n`;

test("the example's Job verifies a running vault's audit against heads of its log, and fails when one is not in it", async () => {
  await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "kept", ceiling: ["data:read"] });
  const shown = await runKeyvault(vault.home.environment, "status", "--json", "--url", vault.url);
  const { audit } = JSON.parse(shown.stdout) as Status;
  await writeFile(heads, line(audit.records, audit.head ?? ""));
  const [verify] = pod.containers;
  expect((await local.run(verify)).stdout).toMatch(/hold, and the heads noted before are in them \(1\)/);

  await appendFile(heads, line(audit.records + 100, "0".repeat(64)));
  await expect(local.run(verify)).rejects.toMatchObject({
    code: 2,
    stdout: expect.stringContaining("were cut off"),
  });
});
