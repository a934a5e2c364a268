import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type CreationRateParts, limitKeyCreation } from "../../keyvault/keys/creation_rate.ts";
import { createRates } from "../../keyvault/rates.ts";
import { codeOf, issueIdentity, startVaultWith, type TestVault } from "./fixture.ts";
import type { Answer, Client } from "./http/caller_support.ts";

const RATE = 2;
const AT_ONCE = 2 * RATE;
const ONBOARDING = 21;

function make(
  vault: TestVault,
  client: Client,
  tenant: string,
  requestKey: string = randomUUID(),
  label = "agent",
) {
  const body = { tenant, purpose: "agent", label, ceiling: ["data:read"] };
  return vault.post("/v1/keys", body, client, { "idempotency-key": requestKey });
}

const granted = (answers: readonly Answer[]) => answers.filter(({ status }) => status === 200);
const late = (answers: readonly Answer[]) => answers.filter((answer) => codeOf(answer) === "rate_limited");
const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index));

/** `most` in the result is the number of keys that the limit allows in the elapsed time. */
async function rush(vault: TestVault, client: Client, tenant: string, count: number) {
  const began = performance.now();
  const answers = await Promise.all(times(count, () => make(vault, client, tenant)));
  const seconds = Math.ceil((performance.now() - began) / 1000);
  return { answers, most: AT_ONCE + RATE * seconds };
}

describe("a limit per tenant", () => {
  let vault: TestVault;
  let api: Client;
  beforeAll(async () => {
    vault = await startVaultWith({ KEYVAULT_CREATION_RATE_PER_TENANT: String(RATE) });
    api = vault.api;
  });
  afterAll(() => vault.close());

  test("allows a burst of twice the rate, then refuses with a wait time and stores only the record of the refusal", async () => {
    const before = vault.head();
    const { answers, most } = await rush(vault, api, "acc-burst", 20);
    expect(granted(answers).length).toBeGreaterThanOrEqual(AT_ONCE);
    expect(granted(answers).length).toBeLessThanOrEqual(most);
    expect(granted(answers).length + late(answers).length).toBe(20);
    for (const { retryAfter } of late(answers)) expect(retryAfter).toBe("1");
    const keys = await vault.home.sql("select from keys where tenant = 'acc-burst'");
    expect(keys).toHaveLength(granted(answers).length);
    const rows = await vault.home.sql<{ outcome: string; count: number }>(
      `select outcome, count(*)::int from audit where seq > $1 and statement = 'key_create' and caller = 'api'
       and purpose = 'agent' and detail ->> 'tenant' = 'acc-burst' group by outcome order by outcome`,
      [before],
    );
    expect(rows).toEqual([
      { outcome: "granted", count: granted(answers).length },
      { outcome: "rate_limited", count: late(answers).length },
    ]);
    expect((await vault.verifyAudit()).intact).toBe(true);
  });

  test("lets a refused call create its key after the wait time", async () => {
    const names = times(10, () => randomUUID());
    const first = await Promise.all(names.map((name) => make(vault, api, "acc-again", name)));
    const index = first.findIndex(({ status }) => status === 429);
    await new Promise((resolve) => setTimeout(resolve, Number(first[index]?.retryAfter) * 1_000));
    expect(codeOf(await make(vault, api, "acc-again", names[index]))).toBe(200);
  });

  test("does not count requests for an existing key", async () => {
    const names = times(AT_ONCE - 1, () => randomUUID());
    const made = await Promise.all(names.map((name) => make(vault, api, "acc-repeat", name)));
    const repeated = times(12, (index) => make(vault, api, "acc-repeat", names[index % names.length]));
    expect(await Promise.all(repeated)).toEqual(times(12, (index) => made[index % made.length]));
    expect((await make(vault, api, "acc-repeat")).status).toBe(200);
    await rush(vault, api, "acc-repeat", 10);
    expect(await make(vault, api, "acc-repeat", names[0])).toEqual(made[0]);
    expect(codeOf(await make(vault, api, "acc-repeat", names[0], "another"))).toBe("idempotency_conflict");
  });

  test("does not delay other tenants, other certificates of the role, or signatures", async () => {
    const { body } = await make(vault, api, "acc-busy");
    const stray = await issueIdentity(vault.home, { kind: "client", role: "api", name: "stray" });
    const { answers } = await rush(vault, stray, "acc-busy", 20);
    const refusals = late(answers).length;
    expect(refusals).toBeGreaterThan(0);
    const text = await (await fetch(`http://127.0.0.1:${vault.healthPort}/metrics`)).text();
    expect(text).toContain(
      `keyvault_key_creations_total{caller="stray",outcome="tenant_limited"} ${refusals}`,
    );
    const mine = await Promise.all([make(vault, api, "acc-busy"), make(vault, api, "acc-calm")]);
    expect(mine.map(({ status }) => status)).toEqual([200, 200]);
    expect((await vault.sign(String(body.key_id), "acc-busy")).status).toBe(200);
  });
});

test("a caller creates a root key and 20 agent keys concurrently if nothing is limited", async () => {
  const { ask } = bounded(0, 0);
  expect(await Promise.all(times(ONBOARDING, () => ask("api", "acc-new")))).not.toContain("rate_limited");
});

describe("a limit per caller, together with the default limits", () => {
  const PER_DAY = ONBOARDING + 6;
  let vault: TestVault;
  let api: Client;
  beforeAll(async () => {
    vault = await startVaultWith({ KEYVAULT_CREATIONS_PER_DAY: String(PER_DAY), KEYVAULT_HEALTH_PORT: "0" });
    api = vault.api;
  });
  afterAll(() => vault.close());

  const invented = (client: Client, count: number) =>
    Promise.all(times(count, () => make(vault, client, `invented-${randomUUID()}`)));

  test("allows a caller to create a root key and 20 agent keys concurrently", async () => {
    const { answers } = await rush(vault, api, "acc-new", ONBOARDING);
    expect(granted(answers)).toHaveLength(ONBOARDING);
  });

  test("limits the keys that a caller creates per day, however many tenants it invents, and stores only records of the refusals", async () => {
    const names = times(3, () => randomUUID());
    const made = await Promise.all(names.map((name) => make(vault, api, "acc-1", name)));
    const answers = await invented(api, 20);
    expect(granted(answers)).toHaveLength(3);
    expect(late(answers)).toHaveLength(17);
    for (const { retryAfter } of late(answers)) expect(Number(retryAfter)).toBeGreaterThan(1_000);
    expect(await vault.home.sql("select from keys where purpose = 'agent'")).toHaveLength(PER_DAY);
    expect(await vault.home.sql("select from tenants where tenant like 'invented-%'")).toHaveLength(3);
    const again = await Promise.all(names.map((name) => make(vault, api, "acc-1", name)));
    expect(again, "what was made is answered again").toEqual(made);
  });

  test("has a metric that counts a caller's refusals and contains no tenant names", async () => {
    const text = await (await fetch(`http://127.0.0.1:${vault.healthPort}/metrics`)).text();
    expect(text).toMatch(/^keyvault_key_creations_total\{caller="api",outcome="answered"\} 30$/m);
    expect(text).toMatch(/^keyvault_key_creations_total\{caller="api",outcome="caller_limited"\} 17$/m);
    expect(text).not.toMatch(/acc-1|invented/);
  });
});

/** Returns the creation of keys with these limits and a clock that stands still. */
function bounded(rate: number, perDay: number) {
  const alarms: object[] = [];
  const parts = {
    createKey: async () => ({ key_id: "made" }),
    database: () => ({ where: () => ({ first: async () => undefined }) }),
    journal: { record: async () => true },
    rates: createRates(() => 0),
    rate,
    perDay,
    log: { error: (event: object) => alarms.push(event) },
    keyCreations: { inc() {} },
  } as unknown as CreationRateParts;
  const create = limitKeyCreation(parts);
  const ask = async (name: string, tenant: string, role: "api" | "admin" = "api") => {
    const answer = await create({ role, name }, "request", { tenant, purpose: "agent", label: "key" });
    return "refused" in answer ? answer.refused : "made";
  };
  return { ask, alarms };
}

test("limitKeyCreation has separate limits for each caller and each tenant", async () => {
  const { ask, alarms } = bounded(1, 0);
  while ((await ask("stray", "acc-1")) === "made");
  expect(await ask("api", "acc-1")).toBe("made");
  expect(await ask("stray", "acc-2")).toBe("made");
  expect(await ask("stray", "acc-1", "admin")).toBe("made");
  expect(alarms).toEqual([]);
});

test("limitKeyCreation logs an error each time a caller exceeds its limit for all tenants, and does not limit others", async () => {
  const { ask, alarms } = bounded(0, 2);
  expect(await Promise.all(["a", "b", "c"].map((tenant) => ask("stray", tenant)))).toEqual([
    "made",
    "made",
    "rate_limited",
  ]);
  expect(await ask("api", "c")).toBe("made");
  expect(alarms).toEqual([
    { event: "caller_creates_too_many_keys", caller: "stray", role: "api", per_day: 2 },
  ]);
});
