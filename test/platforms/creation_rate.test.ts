import { randomUUID } from "node:crypto";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { loadConfig } from "../../keyvault/config.ts";
import { createVaultClient, type VaultClient, VaultRefused } from "../../src/vault/client.ts";
import { createHome, readIdentity, startVault, type TestVault } from "../keyvault/fixture.ts";
import { type Person, startApi, type TestApi } from "../support/api.ts";
import { createFakeVault } from "../support/fake_vault.ts";
import { errorCode, registerPlatform } from "../support/platform_world.ts";

/* These tests use the real vault, which limits how many keys it creates per tenant and time. */

type World = { vault: TestVault; client: VaultClient; api: TestApi };

async function startWorld(environment: Record<string, string>): Promise<World> {
  const home = await createHome();
  home.config = loadConfig({ ...home.environment, ...environment });
  const vault = await startVault(home);
  const client = createVaultClient({ url: vault.url, ...readIdentity(home, "api") });
  const fake = createFakeVault();
  const createKey: VaultClient["createKey"] = async (...order) => {
    if (fake.failure !== undefined) throw fake.failure;
    return client.createKey(...order);
  };
  const api = await startApi({ vault: Object.assign(fake, { createKey }) });
  return { vault, client, api };
}

async function stopWorld({ vault, client, api }: World): Promise<void> {
  await api.stop();
  await client.close();
  await vault.close();
}

const keysOf = async ({ vault }: World, { accountId }: Person): Promise<number> =>
  (await vault.home.sql("select from keys where tenant = $1", [accountId])).length;

describe("a vault that creates only one key per second", () => {
  let world: World;
  beforeAll(async () => {
    world = await startWorld({ KEYVAULT_CREATION_RATE_PER_TENANT: "1" });
  });
  afterEach(() => {
    world.api.vault.failure = undefined;
  });
  afterAll(() => stopWorld(world));

  test("makes agent creation above this rate fail with 503 and Retry-After, and succeed after that time", async () => {
    const { api } = world;
    const person = await api.person();
    const { connectionId, apiKey } = await registerPlatform(person);
    const create = (key: string) =>
      api
        .client()
        .post(
          `/v1/service/connections/${connectionId}/agents`,
          { name: "bot", agent_type: "robot" },
          { headers: { "x-service-api-key": apiKey, "idempotency-key": key } },
        );
    const names = Array.from({ length: 8 }, () => randomUUID());
    const answers = await Promise.all(names.map(create));
    const refused = answers.findIndex(({ status }) => status !== 201);
    const answer = answers[refused];
    expect([answer?.status, answer && errorCode(answer)]).toEqual([503, "vault_unavailable"]);
    const seconds = Number(answer?.headers.get("retry-after"));
    expect(seconds).toBeGreaterThanOrEqual(1);
    await new Promise((resolve) => setTimeout(resolve, seconds * 1_000));
    const again = await create(names[refused] ?? "");
    expect(again.status).toBe(201);
    expect((await create(names[refused] ?? "")).body).toEqual(again.body);
    const made = answers.filter(({ status }) => status === 201).length + 1;
    expect(await keysOf(world, person)).toBe(1 + made);
  });

  test("keeps an onboarding above this rate at its step, until a retry completes it", async () => {
    const { api } = world;
    api.vault.failure = new VaultRefused("rate_limited", "Too many calls", 429, 2);
    const client = api.client();
    const email = `${randomUUID()}@example.test`;
    await expect(client.onboard(email)).rejects.toThrow(/expected 503 to be 200/);
    api.vault.failure = undefined;
    const answer = await client.post("/v1/auth/onboarding/account-type", { account_type: "individual" });
    expect([answer.status, answer.body.onboarding_step]).toEqual([200, "complete"]);
  });
});

describe("a vault with the default rate", () => {
  let world: World;
  beforeAll(async () => {
    world = await startWorld({});
  });
  afterAll(() => stopWorld(world));

  test("lets the operator create a platform and its 20 agents together at the first try", async () => {
    const { api } = world;
    const person = await api.person();
    const platform = `c1.${randomUUID()}`;
    const declared = await api.operator("PUT", `/internal/v1/platforms/${platform}`, {
      account_email: person.email,
      name: "Shop",
      surface_type: "agentic_api",
      default_allowed_scopes: ["data:read"],
    });
    expect(declared.status).toBe(200);
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        api.operator("PUT", `/internal/v1/agents/c1.${randomUUID()}`, {
          platform_external_id: platform,
          name: `bot-${index}`,
          agent_type: "robot",
        }),
      ),
    );
    expect(answers.map(({ status, text }) => (status === 200 ? status : text))).toEqual(Array(20).fill(200));
    expect(await keysOf(world, person)).toBe(21);
  });
});
