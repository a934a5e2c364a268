import { afterAll, beforeAll, expect, test } from "vitest";
import { unixSeconds } from "../../keyvault/clock.ts";
import { loadConfig } from "../../keyvault/config.ts";
import type { CreatedKey } from "../../keyvault/keys/create.ts";
import { createHome, issueIdentity, readIdentity, startVault, type TestVault } from "./fixture.ts";
import { type Answer, type Client, call } from "./http/caller_support.ts";

/*
 * "Cannot exceed the signing rate", tried with the API's real certificate by every road: in one go, over many
 * connections, under another certificate of the role, by other kinds of statement, by other keys of the
 * tenant, by calls that are refused, and by starting again.
 */

let vault: TestVault;
let api: Client;
let agent: CreatedKey;
const PER_KEY = 1;
const PER_TENANT = 3;

beforeAll(async () => {
  const home = await createHome();
  home.config = loadConfig({
    ...home.environment,
    KEYVAULT_RATE_PER_KEY: String(PER_KEY),
    KEYVAULT_RATE_PER_TENANT: String(PER_TENANT),
  });
  vault = await startVault(home);
  api = readIdentity(home, "api");
});
afterAll(() => vault.close());

let tenants = 0;
async function freshTenant(): Promise<{ tenant: string; root: CreatedKey; agents: CreatedKey[] }> {
  tenants += 1;
  const tenant = `acc-${tenants}`;
  const make = (purpose: "account_root" | "agent") =>
    vault.makeKey({ tenant, purpose, label: "key", ceiling: ["data:read"] });
  return { tenant, root: await make("account_root"), agents: [await make("agent"), await make("agent")] };
}

const sign = (tenant: string, kind: string, keyId: string, body: object, identity = api): Promise<Answer> =>
  call(`${vault.url}/v1/keys/${keyId}/sign/${kind}`, identity, { method: "POST", body: { tenant, ...body } });
const now = () => unixSeconds(vault.clock.now());
const challenge = () => ({ challenge: Buffer.alloc(32, 1).toString("base64"), challenge_at: now() });
const signed = (answers: readonly Answer[]) => answers.filter(({ status }) => status === 200).length;

/**
 * Calls of `attempt` side by side; gives how many were signed, and how many seconds they took, rounded up.
 */
async function rush(count: number, attempt: (index: number) => Promise<Answer>) {
  const began = performance.now();
  const answers = await Promise.all(Array.from({ length: count }, (_, index) => attempt(index)));
  return { signed: signed(answers), answers, seconds: Math.ceil((performance.now() - began) / 1000) };
}

/** What a bucket lets through in that time: twice its rate in one go, and its rate each second. */
const most = (rate: number, seconds: number) => 2 * rate + rate * seconds;

test("one key, over forty concurrent connections and under two certificates", async () => {
  const { tenant, agents } = await freshTenant();
  [agent] = agents as [CreatedKey];
  const second = await issueIdentity(vault.home, { kind: "client", role: "api", name: "api-2" });
  const { signed, answers, seconds } = await rush(40, (index) =>
    sign(tenant, "challenge", agent.key_id, challenge(), index % 2 === 0 ? api : second),
  );
  expect(signed).toBeGreaterThanOrEqual(2 * PER_KEY);
  expect(signed).toBeLessThanOrEqual(most(PER_KEY, seconds));
  for (const { status, body } of answers) {
    if (status !== 200) expect(body).toMatchObject({ error: { code: "rate_limited", status: 429 } });
  }
});

test("all keys of a tenant, by every kind of statement", async () => {
  const { tenant, root, agents } = await freshTenant();
  const kinds: ((index: number) => Promise<Answer>)[] = [
    () => sign(tenant, "challenge", agents[0]!.key_id, challenge()),
    () => sign(tenant, "challenge", agents[1]!.key_id, challenge()),
    (index) =>
      sign(tenant, "revocation-list", root.key_id, {
        updated_at: now(),
        revoked_certs: [`c${index}`],
        expires_at: [0],
      }),
  ];
  const { signed, seconds } = await rush(40, (index) => kinds[index % kinds.length]!(index));
  expect(signed).toBeGreaterThan(0);
  expect(signed).toBeLessThanOrEqual(most(PER_TENANT, seconds));
});

test("a statement that is refused counts as well, so nothing can be tried out faster", async () => {
  const { tenant, agents } = await freshTenant();
  const wrong = { ...challenge(), challenge_at: now() - 600 };
  const { answers, seconds } = await rush(20, () => sign(tenant, "challenge", agents[0]!.key_id, wrong));
  const judged = answers.filter(({ body }) => body.error?.code === "policy_violation").length;
  expect(judged).toBeGreaterThan(0);
  expect(judged).toBeLessThanOrEqual(most(PER_KEY, seconds));
});

test("each try beyond the rate is on record, and another tenant signs meanwhile", async () => {
  const [busy, calm] = [await freshTenant(), await freshTenant()];
  const before = vault.vault.journal.head().seq;
  const { answers } = await rush(20, () =>
    sign(busy.tenant, "challenge", busy.agents[0]!.key_id, challenge()),
  );
  const late = answers.filter(({ status }) => status === 429).length;
  expect((await sign(calm.tenant, "challenge", calm.agents[0]!.key_id, challenge())).status).toBe(200);
  const [row] = await vault.home.sql<{ count: number }>(
    "select count(*)::int from audit where seq > $1 and outcome = 'rate_limited' and caller = 'api'",
    [before],
  );
  expect(row?.count).toBe(late);
  expect(late).toBeGreaterThan(0);
});

test("another tenant's rate is not used up by naming it, or its key; what names no key of the tenant's has a rate of its own", async () => {
  const [victim, other] = [await freshTenant(), await freshTenant()];
  const stray = await issueIdentity(vault.home, { kind: "client", role: "api", name: "stray" });
  const key = victim.agents[0]!.key_id;
  const aims = [
    [victim.tenant, "0".repeat(32)],
    [victim.tenant, other.agents[0]!.key_id],
    [other.tenant, key],
  ] as const;
  const { answers, seconds } = await rush(60, (index) => {
    const [tenant, keyId] = aims[index % aims.length]!;
    return sign(tenant, "challenge", keyId, challenge(), stray);
  });
  const codes = answers.map(({ body }) => body.error?.code);
  expect(new Set(codes)).toEqual(new Set(["key_not_found", "rate_limited"]));
  const looked = codes.filter((code) => code === "key_not_found").length;
  expect(looked).toBeLessThanOrEqual(most(PER_TENANT, seconds));
  const { signed } = await rush(2 * PER_KEY, () => sign(victim.tenant, "challenge", key, challenge()));
  expect(signed).toBe(2 * PER_KEY);
  expect((await sign(victim.tenant, "challenge", "1".repeat(32), challenge())).body.error?.code).toBe(
    "key_not_found",
  );
});
