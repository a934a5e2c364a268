import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { CreatedKey } from "../../keyvault/keys/create.ts";
import { createRates } from "../../keyvault/rates.ts";
import { codeOf, issueIdentity, startVaultWith, type TestVault } from "./fixture.ts";
import type { Answer } from "./http/caller_support.ts";

/*
 * "Cannot exceed the signing rate", tried with the API's real certificate by every road: in one go, over many
 * connections, under another certificate of the role, by other kinds of statement, by other keys of the
 * tenant, and by calls that are refused.
 */

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

test("lets through twice the rate in one go, then as many as time allows, and says how long to wait", () => {
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

test("a call that one bucket refuses takes nothing from the others", () => {
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

test("rates take memory for the names that were seen, not for those that they could remember", () => {
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

/** Calls of `attempt` side by side, and how many seconds they took, rounded up. */
async function rush(calls: number, attempt: (index: number) => Promise<Answer>) {
  const began = performance.now();
  const answers = await Promise.all(Array.from({ length: calls }, (_, index) => attempt(index)));
  return { answers, seconds: Math.ceil((performance.now() - began) / 1000) };
}

/** What a bucket lets through in that time: twice its rate in one go, and its rate each second. */
const most = (rate: number, seconds: number) => 2 * rate + rate * seconds;

test("one key signs no faster than its rate, over thirty connections and under two certificates", async () => {
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

test("all keys of a tenant sign no faster than its rate, by every kind of statement", async () => {
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

test("a statement that is refused counts as well, so nothing can be tried out faster", async () => {
  const { tenant, agents } = await freshTenant();
  const wrong = { ...vault.challenge(tenant), challenge_at: vault.now() - 600 };
  const { answers, seconds } = await rush(20, () =>
    vault.post(`/v1/keys/${agents[0].key_id}/sign/challenge`, wrong),
  );
  expect(count(answers, "policy_violation")).toBeGreaterThan(0);
  expect(count(answers, "policy_violation")).toBeLessThanOrEqual(most(PER_KEY, seconds));
});

test("each try beyond the rate is on record, and another tenant signs meanwhile", async () => {
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

test("another tenant's rate is not used up by naming it, or its key; what names no key of the tenant's has a rate of its own", async () => {
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

test("a tenant has as many keys as its quota says, disabled ones among them, and not one more", async () => {
  const { tenant, agents } = await freshTenant();
  await expect(vault.makeAgent(tenant)).rejects.toThrow(/policy_violation/);
  await vault.disable(agents[0].key_id, tenant);
  await expect(vault.makeAgent(tenant)).rejects.toThrow(/policy_violation/);
  await vault.makeAgent("acc-another");
});

/** What becomes of a connection from this address of the machine. */
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

test("an address that connects too often is dropped before any handshake, and no other one is", async () => {
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
