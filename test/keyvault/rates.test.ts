import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { CreatedKey } from "../../keyvault/keys/create.ts";
import { createRates } from "../../keyvault/rates.ts";
import { codeOf, issueIdentity, startVaultWith, type TestVault } from "./fixture.ts";
import type { Answer } from "./http/caller_support.ts";

/* All attempts to exceed the signing rate use the API's real certificate. */

const PER_KEY = 1;
const PER_TENANT = 3;
const QUOTA = 3;
const HANDSHAKES = 50;

let vault: TestVault;
let tenants = 0;

beforeAll(async () => {
  vault = await startVaultWith({
    KEYVAULT_RATE_PER_KEY: String(PER_KEY),
    KEYVAULT_RATE_PER_TENANT: String(PER_TENANT),
    KEYVAULT_KEYS_PER_TENANT: String(QUOTA),
    KEYVAULT_HANDSHAKE_RATE: String(HANDSHAKES),
  });
});
afterAll(() => vault.close());

test("createRates allows a burst of twice the rate and then calls at the rate, and returns the time to wait", () => {
  let now = 0;
  const rates = createRates(() => now);
  const take = (name = "a", rate = 2) => rates.take([{ name, rate }]);
  for (let calls = 0; calls < 4; calls += 1) expect(take()).toBeUndefined();
  expect(take()).toBe(0.5);
  expect(take("b")).toBeUndefined();
  now = 499;
  expect(take()).toBeCloseTo(0.001);
  now = 500;
  expect(take()).toBeUndefined();
  expect(take()).toBe(0.5);
  now = 1_000_000;
  for (let calls = 0; calls < 4; calls += 1) expect(take()).toBeUndefined();
  expect(take()).toBe(0.5);
  expect(take("c", 0)).toBeUndefined();
});

test("createRates takes nothing from any bucket if one bucket is empty", () => {
  const rates = createRates(() => 0);
  const [empty, full] = [
    { name: "empty", rate: 0.5 },
    { name: "full", rate: 1 },
  ];
  expect(rates.take([empty])).toBeUndefined();
  for (let calls = 0; calls < 5; calls += 1) expect(rates.take([empty, full])).toBe(2);
  expect(rates.take([full])).toBeUndefined();
  expect(rates.take([full])).toBeUndefined();
  expect(rates.take([full])).toBe(1);
});

test("createRates uses memory only for the names that it has seen", () => {
  const before = process.memoryUsage().arrayBuffers;
  const many = Array.from({ length: 10 }, () => createRates(() => 0));
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1_000_000);
  for (const rates of many) expect(rates.take([{ name: "a", rate: 1 }])).toBeUndefined();
});

type Tenant = { tenant: string; root: CreatedKey; agents: [CreatedKey, CreatedKey] };

async function freshTenant(): Promise<Tenant> {
  const tenant = `acc-${++tenants}`;
  const root = await vault.makeKey({ tenant, purpose: "account_root", label: "key", ceiling: ["data:read"] });
  return { tenant, root, agents: [await vault.makeAgent(tenant), await vault.makeAgent(tenant)] };
}

const stray = (name: string) => issueIdentity(vault.home, { kind: "client", role: "api", name });
const count = (answers: readonly Answer[], outcome: string | number) =>
  answers.filter((answer) => codeOf(answer) === outcome).length;

/** Returns the responses and the elapsed seconds, rounded up. */
async function rush(calls: number, attempt: (index: number) => Promise<Answer>) {
  const began = performance.now();
  const answers = await Promise.all(Array.from({ length: calls }, (_, index) => attempt(index)));
  return { answers, seconds: Math.ceil((performance.now() - began) / 1000) };
}

/** A bucket allows a burst of twice its rate, plus its rate for each second. */
const most = (rate: number, seconds: number) => 2 * rate + rate * seconds;

test("a key signs no faster than its rate limit, over thirty connections and with two certificates", async () => {
  const { tenant, agents } = await freshTenant();
  const second = await stray("api-2");
  const { answers, seconds } = await rush(30, (index) =>
    vault.sign(agents[0].key_id, tenant, index % 2 === 0 ? vault.api : second),
  );
  expect(count(answers, 200)).toBeGreaterThanOrEqual(2 * PER_KEY);
  expect(count(answers, 200)).toBeLessThanOrEqual(most(PER_KEY, seconds));
  for (const answer of answers) {
    if (answer.status !== 200) {
      expect(answer).toMatchObject({
        retryAfter: "1",
        body: { error: { code: "rate_limited", status: 429 } },
      });
    }
  }
});

test("all keys of a tenant together sign no faster than the tenant's rate limit, with every kind of statement", async () => {
  const { tenant, root, agents } = await freshTenant();
  const list = (index: number) => {
    const body = { tenant, updated_at: vault.now(), revoked_certs: [`c${index}`], expires_at: [0] };
    return vault.post(`/v1/keys/${root.key_id}/sign/revocation-list`, body);
  };
  const { answers, seconds } = await rush(30, (index) =>
    index % 3 === 2 ? list(index) : vault.sign(agents[index % 3]!.key_id, tenant),
  );
  expect(count(answers, 200)).toBeGreaterThan(0);
  expect(count(answers, 200)).toBeLessThanOrEqual(most(PER_TENANT, seconds));
});

test("refused statements count against the rate limit", async () => {
  const { tenant, agents } = await freshTenant();
  const wrong = { ...vault.challenge(tenant), challenge_at: vault.now() - 600 };
  const { answers, seconds } = await rush(20, () =>
    vault.post(`/v1/keys/${agents[0].key_id}/sign/challenge`, wrong),
  );
  expect(count(answers, "policy_violation")).toBeGreaterThan(0);
  expect(count(answers, "policy_violation")).toBeLessThanOrEqual(most(PER_KEY, seconds));
});

test("the vault records each call that exceeds a tenant's rate limit, while a second tenant can still sign", async () => {
  const [busy, calm] = [await freshTenant(), await freshTenant()];
  const before = vault.head();
  const { answers } = await rush(20, () => vault.sign(busy.agents[0].key_id, busy.tenant));
  const late = count(answers, "rate_limited");
  expect((await vault.sign(calm.agents[0].key_id, calm.tenant)).status).toBe(200);
  const limited = { statement: "challenge", outcome: "rate_limited" };
  const records = await vault.recordsAfter(before);
  expect(records.filter(({ outcome }) => outcome === "rate_limited")).toEqual(Array(late).fill(limited));
  expect(late).toBeGreaterThan(0);
});

test("calls that name another tenant or its key count against the caller's rate limit, not against that tenant's limit", async () => {
  const [victim, other] = [await freshTenant(), await freshTenant()];
  const thief = await stray("stray");
  const key = victim.agents[0].key_id;
  const aims = [
    [victim.tenant, "0".repeat(32)],
    [victim.tenant, other.agents[0].key_id],
    [other.tenant, key],
  ] as const;
  const { answers, seconds } = await rush(36, (index) => {
    const [tenant, keyId] = aims[index % aims.length]!;
    return vault.sign(keyId, tenant, thief);
  });
  expect(new Set(answers.map(codeOf))).toEqual(new Set(["key_not_found", "rate_limited"]));
  expect(count(answers, "key_not_found")).toBeLessThanOrEqual(most(PER_TENANT, seconds));
  const own = await rush(2 * PER_KEY, () => vault.sign(key, victim.tenant));
  expect(count(own.answers, 200)).toBe(2 * PER_KEY);
  expect(codeOf(await vault.sign("1".repeat(32), victim.tenant))).toBe("key_not_found");
});

test("a tenant has at most as many active keys as its quota, so disabling a key makes room", async () => {
  const { tenant, agents } = await freshTenant();
  await expect(vault.makeAgent(tenant)).rejects.toThrow(/policy_violation/);
  await vault.disable(agents[0].key_id, tenant);
  await vault.makeAgent(tenant);
  await expect(vault.makeAgent(tenant)).rejects.toThrow(/policy_violation/);
  await vault.makeAgent("acc-another");
});

function connectFrom(localAddress: string): Promise<"dropped" | "open"> {
  return new Promise((resolve) => {
    const socket = connect({ port: vault.port, host: "127.0.0.1", localAddress });
    const open = setTimeout(() => socket.destroy() && resolve("open"), 1_000);
    socket
      .on("error", () => {})
      .on("close", () => {
        clearTimeout(open);
        resolve("dropped");
      });
  });
}

test("the vault drops connections before their handshake if their address connects too often, but no other connections", async () => {
  const often = Array.from({ length: 5 * HANDSHAKES }, () => connectFrom("127.0.0.1"));
  const other = process.platform === "linux" ? connectFrom("127.0.0.2") : "open";
  const outcomes = await Promise.all(often);
  expect(outcomes.filter((outcome) => outcome === "dropped").length).toBeGreaterThan(20);
  expect(await other).toBe("open");
  const { tenant, agents } = await freshTenant();
  await expect
    .poll(async () => (await vault.sign(agents[0].key_id, tenant).catch(() => ({ status: 0 }))).status, {
      timeout: 15_000,
      interval: 700,
    })
    .toBe(200);
});
