import { randomUUID } from "node:crypto";
import { request } from "node:https";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { unixSeconds } from "../../keyvault/clock.ts";
import { loadConfig } from "../../keyvault/config.ts";
import { createHome, issueIdentity, readIdentity, startVault, type TestVault } from "./fixture.ts";
import { type Client, call } from "./http/caller_support.ts";

/* How often keys are made for one tenant, over mutual TLS: the bound, and what it must not do. */

const RATE = 2;
const AT_ONCE = 2 * RATE;
const ONBOARDING = 21;

async function startWith(environment: Record<string, string>): Promise<TestVault> {
  const home = await createHome();
  home.config = loadConfig({ ...home.environment, ...environment });
  return startVault(home);
}

type Made = {
  status: number;
  retryAfter: string | undefined;
  keyId: string | undefined;
  code: string | undefined;
};

/** Asks for a key, once under each `requestKey`. */
function make(
  { url }: TestVault,
  client: Client,
  tenant: string,
  requestKey: string = randomUUID(),
  label = "agent",
): Promise<Made> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "idempotency-key": requestKey };
    const sent = request(`${url}/v1/keys`, { ...client, method: "POST", headers, agent: false }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on("data", (chunk: Buffer) => chunks.push(chunk)).on("error", reject);
      answer.on("end", () => {
        const body = JSON.parse(Buffer.concat(chunks).toString());
        const retryAfter = answer.headers["retry-after"];
        resolve({ status: answer.statusCode ?? 0, retryAfter, keyId: body.key_id, code: body.error?.code });
      });
    });
    sent.on("error", reject).end(JSON.stringify({ tenant, purpose: "agent", label, ceiling: ["data:read"] }));
  });
}

const granted = (answers: readonly Made[]) => answers.filter(({ status }) => status === 200);
const late = (answers: readonly Made[]) => answers.filter(({ status }) => status === 429);
const keysOf = ({ home }: TestVault, tenant: string) =>
  home.sql("select from keys where tenant = $1", [tenant]);

/** Asks for `count` keys concurrently; `most` is what the bound lets through in the time that took. */
async function rush(vault: TestVault, client: Client, tenant: string, count: number) {
  const began = performance.now();
  const answers = await Promise.all(Array.from({ length: count }, () => make(vault, client, tenant)));
  const seconds = Math.ceil((performance.now() - began) / 1000);
  return { answers, most: AT_ONCE + RATE * seconds };
}

describe("with a rate", () => {
  let vault: TestVault;
  let api: Client;
  beforeAll(async () => {
    vault = await startWith({ KEYVAULT_CREATION_RATE_PER_TENANT: String(RATE) });
    api = readIdentity(vault.home, "api");
  });
  afterAll(() => vault.close());

  test("twice as many are made in one go, and a caller beyond that gets the time to try again, and leaves nothing but its record", async () => {
    const before = vault.vault.journal.head().seq;
    const { answers, most } = await rush(vault, api, "acc-burst", 20);
    expect(granted(answers).length).toBeGreaterThanOrEqual(AT_ONCE);
    expect(granted(answers).length).toBeLessThanOrEqual(most);
    expect(granted(answers).length + late(answers).length).toBe(20);
    for (const answer of late(answers)) {
      expect(answer).toMatchObject({ code: "rate_limited", retryAfter: "1" });
    }
    expect(await keysOf(vault, "acc-burst")).toHaveLength(granted(answers).length);
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

  test("a creation that was refused is made when it is asked for again after the time given", async () => {
    const names = Array.from({ length: 10 }, () => randomUUID());
    const first = await Promise.all(names.map((name) => make(vault, api, "acc-again", name)));
    const [index, waiting] = [...first.entries()].find(([, { status }]) => status === 429) ?? [];
    expect(waiting).toBeDefined();
    await new Promise((resolve) => setTimeout(resolve, Number(waiting?.retryAfter) * 1_000));
    const again = await make(vault, api, "acc-again", names[index ?? 0]);
    expect([again.status, again.code]).toEqual([200, undefined]);
  });

  test("a creation that happened is answered again as often as it is asked for, and does not count", async () => {
    const names = Array.from({ length: AT_ONCE - 1 }, () => randomUUID());
    const made = await Promise.all(names.map((name) => make(vault, api, "acc-repeat", name)));
    const repeated = await Promise.all(
      Array.from({ length: 30 }, (_, index) => make(vault, api, "acc-repeat", names[index % names.length])),
    );
    expect(repeated).toEqual(Array.from({ length: 30 }, (_, index) => made[index % made.length]));
    expect((await make(vault, api, "acc-repeat")).status).toBe(200);
    await rush(vault, api, "acc-repeat", 10);
    expect(await make(vault, api, "acc-repeat", names[0])).toEqual(made[0]);
    expect(await make(vault, api, "acc-repeat", names[0], "another")).toMatchObject({
      status: 409,
      code: "idempotency_conflict",
    });
  });

  test("neither another tenant, nor another certificate of the role, nor a signature is held up", async () => {
    const { keyId } = await make(vault, api, "acc-busy");
    const stray = await issueIdentity(vault.home, { kind: "client", role: "api", name: "stray" });
    const { answers } = await rush(vault, stray, "acc-busy", 20);
    expect(late(answers).length).toBeGreaterThan(0);
    const mine = await Promise.all([make(vault, api, "acc-busy"), make(vault, api, "acc-calm")]);
    expect(mine.map(({ status }) => status)).toEqual([200, 200]);
    const challenge_at = unixSeconds(vault.clock.now());
    const signed = await call(`${vault.url}/v1/keys/${keyId}/sign/challenge`, api, {
      method: "POST",
      body: { tenant: "acc-busy", challenge: Buffer.alloc(32, 1).toString("base64"), challenge_at },
    });
    expect(signed.status).toBe(200);
  });
});

describe.each([
  ["the default", {}],
  ["no bound", { KEYVAULT_CREATION_RATE_PER_TENANT: "0" }],
])("with %s", (_, environment) => {
  let vault: TestVault;
  beforeAll(async () => {
    vault = await startWith(environment);
  });
  afterAll(() => vault.close());

  test(`a root and its 20 agents at once are all made`, async () => {
    const { answers } = await rush(vault, readIdentity(vault.home, "api"), "acc-new", ONBOARDING);
    expect(granted(answers)).toHaveLength(ONBOARDING);
  });
});

describe("with a bound for all tenants of a caller", () => {
  const PER_DAY = 6;
  let vault: TestVault;
  let api: Client;
  beforeAll(async () => {
    vault = await startWith({ KEYVAULT_CREATIONS_PER_DAY: String(PER_DAY), KEYVAULT_HEALTH_PORT: "0" });
    api = readIdentity(vault.home, "api");
  });
  afterAll(() => vault.close());

  const invented = (client: Client, count: number) =>
    Promise.all(Array.from({ length: count }, () => make(vault, client, `invented-${randomUUID()}`)));
  const metrics = async () => (await fetch(`http://127.0.0.1:${vault.healthPort}/metrics`)).text();

  test("no more keys are made in a day however many tenants it invents, and the others leave no row but their record", async () => {
    const names = Array.from({ length: 3 }, () => randomUUID());
    const made = await Promise.all(names.map((name) => make(vault, api, "acc-1", name)));
    const answers = await invented(api, 20);
    expect(granted(answers)).toHaveLength(PER_DAY - 3);
    expect(late(answers)).toHaveLength(20 - (PER_DAY - 3));
    for (const { code, retryAfter } of late(answers)) {
      expect(code).toBe("rate_limited");
      expect(Number(retryAfter)).toBeGreaterThan(10_000);
    }
    expect(await vault.home.sql("select from keys where purpose = 'agent'")).toHaveLength(PER_DAY);
    expect(await vault.home.sql("select from tenants where tenant like 'invented-%'")).toHaveLength(
      PER_DAY - 3,
    );
    const again = await Promise.all(names.map((name) => make(vault, api, "acc-1", name)));
    expect(again, "what was made is answered again").toEqual(made);
  });

  test("it shows as a metric to be alarmed about, with no tenant in it", async () => {
    const text = await metrics();
    expect(text).toMatch(/^keyvault_key_creations_total\{caller="api",outcome="answered"\} 9$/m);
    expect(text).toMatch(/^keyvault_key_creations_total\{caller="api",outcome="caller_limited"\} 17$/m);
    expect(text).not.toMatch(/acc-1|invented/);
  });

  test("another certificate has a bound of its own", async () => {
    const stray = await issueIdentity(vault.home, { kind: "client", role: "api", name: "stray" });
    expect(granted(await invented(stray, 10))).toHaveLength(PER_DAY);
  });
});
