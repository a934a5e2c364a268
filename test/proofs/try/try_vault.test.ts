import { afterAll, beforeAll, expect, test } from "vitest";
import { loadConfig } from "../../../keyvault/config.ts";
import { createVaultClient, type VaultClient } from "../../../src/vault/client.ts";
import { createHome, readIdentity, startVault, type TestVault } from "../../keyvault/fixture.ts";
import { vaultForApi } from "../../keyvault/for_api.ts";
import { decisionsOf, errorOf, proofApi } from "../application.ts";

/*
 * Trying with the real vault, over mutual TLS.
 */

let vault: TestVault;
let client: VaultClient;

beforeAll(async () => {
  const home = await createHome();
  home.config = loadConfig({ ...home.environment, KEYVAULT_RATE_PER_KEY: "1" });
  vault = await startVault(home);
  client = createVaultClient({ url: vault.url, ...readIdentity(home, "api") });
});

afterAll(async () => {
  await client.close();
  await vault.home.remove();
});

const world = proofApi({ vault: vaultForApi(() => client) });

test("decides on what the vault has signed, and keeps the rate of its keys", async () => {
  const app = await world.application();
  const path = `/v1/service/connections/${app.platform.connectionId}/agents/${app.agentId}/try`;
  const attempt = () => app.person.client.post(path, { required_scope: "data:read" });
  const answers = await Promise.all(Array.from({ length: 12 }, attempt));
  const allowed = answers.filter(({ status }) => status === 200);
  expect(new Set(allowed.map(({ body }) => body.decision))).toEqual(new Set(["allow"]));
  const refused = answers.filter(({ status }) => status !== 200);
  expect(new Set(refused.map(errorOf))).toEqual(new Set(["429 rate_limited"]));
  expect(await decisionsOf(world, app)).toBe(allowed.length);
});

test("is 503 while the vault is away, and nothing is decided", async () => {
  const app = await world.application();
  await vault.stop();
  const path = `/v1/service/connections/${app.platform.connectionId}/agents/${app.agentId}/try`;
  const answer = await app.person.client.post(path, { required_scope: "data:read" });
  expect(errorOf(answer)).toBe("503 vault_unavailable");
  expect(await decisionsOf(world, app)).toBe(0);
});
