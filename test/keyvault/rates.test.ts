import { request } from "node:https";
import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { unixSeconds } from "../../keyvault/clock.ts";
import { loadConfig } from "../../keyvault/config.ts";
import { createKeyDisabling } from "../../keyvault/keys/change.ts";
import { createRates } from "../../keyvault/rates.ts";
import { API, createHome, readIdentity, startVault, type TestVault } from "./fixture.ts";

let vault: TestVault;
const keys: string[] = [];
const make = (tenant: string) =>
  vault.makeKey({ tenant, purpose: "agent", label: "agent", ceiling: ["data:read"] });

beforeAll(async () => {
  const home = await createHome();
  home.config = loadConfig({
    ...home.environment,
    KEYVAULT_RATE_PER_KEY: "1",
    KEYVAULT_RATE_PER_TENANT: "2",
    KEYVAULT_KEYS_PER_TENANT: "3",
    KEYVAULT_HANDSHAKE_RATE: "10",
  });
  vault = await startVault(home);
  for (const tenant of ["acc-1", "acc-1", "acc-1", "acc-2"]) keys.push((await make(tenant)).key_id);
});
afterAll(() => vault.close());

function sign(
  key: string | undefined,
  tenant: string,
): Promise<{ status: number; retryAfter: string | undefined }> {
  const identity = readIdentity(vault.home, "api");
  const body = {
    tenant,
    challenge: Buffer.alloc(32, 1).toString("base64"),
    challenge_at: unixSeconds(vault.clock.now()),
  };
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json" };
    const path = `${vault.url}/v1/keys/${key}/sign/challenge`;
    const sent = request(path, { ...identity, method: "POST", headers, agent: false }, (answer) => {
      answer
        .resume()
        .on("end", () =>
          resolve({ status: answer.statusCode ?? 0, retryAfter: answer.headers["retry-after"] }),
        );
    });
    sent.on("error", reject).end(JSON.stringify(body));
  });
}

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

test("a key, and a tenant with all its keys, sign no faster than their rates; each attempt is on record", async () => {
  const key = [keys[0], keys[0], keys[0]].map((id) => sign(id, "acc-1"));
  const answers = await Promise.all(key);
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 429]);
  expect(answers.find(({ status }) => status === 429)?.retryAfter).toBe("1");
  const others = await Promise.all([keys[1], keys[1], keys[2], keys[2]].map((id) => sign(id, "acc-1")));
  expect(others.filter(({ status }) => status === 429).length).toBeGreaterThan(0);
  expect((await sign(keys[3], "acc-2")).status).toBe(200);
  const [row] = await vault.home.sql<{ count: number }>(
    "select count(*)::int from audit where outcome = 'rate_limited' and statement = 'challenge'",
  );
  expect(row?.count).toBe([...answers, ...others].filter(({ status }) => status === 429).length);
});

test("a tenant has as many keys as its quota says, disabled ones among them, and not one more", async () => {
  await expect(make("acc-1")).rejects.toThrow(/policy_violation/);
  const disable = createKeyDisabling({ ...vault.vault, clock: vault.clock });
  await disable(API, { keyId: keys[0] ?? "", tenant: "acc-1" });
  await expect(make("acc-1")).rejects.toThrow(/policy_violation/);
  await make("acc-2");
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
  const often = Array.from({ length: 60 }, () => connectFrom("127.0.0.1"));
  const other = process.platform === "linux" ? connectFrom("127.0.0.2") : "open";
  const outcomes = await Promise.all(often);
  expect(outcomes.filter((outcome) => outcome === "dropped").length).toBeGreaterThan(20);
  expect(await other).toBe("open");
  await expect
    .poll(async () => (await sign(keys[3], "acc-2").catch(() => ({ status: 0 }))).status, {
      timeout: 15_000,
      interval: 700,
    })
    .toBe(200);
});

test("rates take memory for the names that were seen, not for those that they could remember", () => {
  const before = process.memoryUsage().arrayBuffers;
  const many = Array.from({ length: 10 }, () => createRates(() => 0));
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1_000_000);
  for (const rates of many) expect(rates.take([{ name: "a", rate: 1 }])).toBeUndefined();
});
