import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadConfig } from "../../keyvault/config.ts";
import { createVaultClient, type VaultClient } from "../../src/vault/client.ts";
import { createHome, readIdentity, startVault, type TestVault } from "../keyvault/fixture.ts";
import { vaultForApi } from "../keyvault/for_api.ts";
import { type Application, decisionsOf, errorOf, proofApi } from "./application.ts";

/** Each key of this vault signs at most once a second. */

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
const twelve = <T>(make: () => Promise<T>) => Promise.all(Array.from({ length: 12 }, make));

test("present answers 429 with the vault's Retry-After, and never 503, if the vault's limit for a key is reached", async () => {
  const app = await world.application();
  const refused = (await twelve(() => app.present())).filter(({ status }) => status !== 200);
  expect(new Set(refused.map(errorOf))).toEqual(new Set(["429 rate_limited"]));
  for (const { headers } of refused) {
    expect(Number(headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  }
});

describe("a trial with the real vault", () => {
  const attempt = ({ person, platform, agentId }: Application) =>
    person.client.post(`/v1/service/connections/${platform.connectionId}/agents/${agentId}/try`, {
      required_scope: "data:read",
    });

  test("decides on the proof that the vault has signed, and respects the vault's rate limit for a key", async () => {
    const app = await world.application();
    const answers = await twelve(() => attempt(app));
    const allowed = answers.filter(({ status }) => status === 200);
    expect(new Set(allowed.map(({ body }) => body.decision))).toEqual(new Set(["allow"]));
    const refused = answers.filter(({ status }) => status !== 200);
    expect(new Set(refused.map(errorOf))).toEqual(new Set(["429 rate_limited"]));
    expect(await decisionsOf(world, app)).toBe(allowed.length);
  });

  test("answers 503 and decides nothing while the vault is unavailable", async () => {
    const app = await world.application();
    await vault.stop();
    expect(errorOf(await attempt(app))).toBe("503 vault_unavailable");
    expect(await decisionsOf(world, app)).toBe(0);
  });
});
