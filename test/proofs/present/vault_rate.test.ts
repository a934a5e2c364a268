import { afterAll, beforeAll, expect, test } from "vitest";
import { loadConfig } from "../../../keyvault/config.ts";
import { createVaultClient, type VaultClient } from "../../../src/vault/client.ts";
import { createHome, readIdentity, startVault, type TestVault } from "../../keyvault/fixture.ts";
import { vaultForApi } from "../../keyvault/for_api.ts";
import { errorOf, proofApi } from "../application.ts";

/*
 * What an application sees of the rates of the real vault, over mutual TLS.
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
  await vault.close();
});

const { application } = proofApi({ vault: vaultForApi(() => client) });

test("present beyond a key's rate in the vault is 429 with the vault's time to come again, and never 503", async () => {
  const app = await application();
  const answers = await Promise.all(Array.from({ length: 12 }, () => app.present()));
  const refused = answers.filter(({ status }) => status !== 200);
  expect(new Set(refused.map(errorOf))).toEqual(new Set(["429 rate_limited"]));
  for (const { headers } of refused) {
    expect(Number(headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  }
});
