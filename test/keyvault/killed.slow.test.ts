import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { unixSeconds } from "../../keyvault/clock.ts";
import { createHome, readIdentity, startVault, type TestVault, type VaultHome } from "./fixture.ts";
import { call } from "./http/caller_support.ts";

/*
 * The token's process killed at each step of creating, signing, rotating, rewrapping and retiring, and the
 * whole vault killed while it retires. The whole vault killed at the other steps is in process.test.ts and
 * kek/killed.test.ts.
 */

vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 });

const MAIN = fileURLToPath(new URL("../../keyvault/main.ts", import.meta.url));

let home: VaultHome;
beforeEach(async () => {
  home = await createHome();
});
afterEach(() => home.remove());

/**
 * The chain holds, every row has its record and every record its row, and every data key is under a version
 * that the token has.
 */
async function requireWhole(vault: TestVault): Promise<void> {
  expect((await vault.verifyAudit()).intact).toBe(true);
  const [keys, recorded] = [
    await home.sql<{ key_id: string }>("select key_id from keys order by key_id"),
    await home.sql<{ key_id: string }>(
      "select key_id from audit where statement = 'key_create' and outcome = 'granted' order by key_id",
    ),
  ];
  expect(recorded).toEqual(keys);
  expect(
    await home.sql("select from tenants t where not exists (select from keys k where k.tenant = t.tenant)"),
  ).toEqual([]);
  const { keks } = vault.vault.token.info();
  const used = await home.sql<{ kek: string }>("select distinct kek from tenants");
  expect(used.map(({ kek }) => kek).filter((kek) => !keks.includes(kek))).toEqual([]);
}

test("the token's process killed at any step leaves nothing half, and every key that was answered signs", async () => {
  const vault = await startVault(home);
  const { token } = vault.vault;
  const post = (path: string, role: "api" | "admin", body: object, headers: Record<string, string> = {}) =>
    call(`${vault.url}${path}`, readIdentity(home, role), { method: "POST", body, headers });
  const challenge = () => ({
    challenge: Buffer.alloc(32, 1).toString("base64"),
    challenge_at: unixSeconds(vault.clock.now()),
  });
  const answered: { tenant: string; key_id: string }[] = [];
  let made = 0;
  const steps: Record<string, () => Promise<{ status: number }>> = {
    async create() {
      const tenant = `acc-${++made}`;
      const body = { tenant, purpose: "agent", label: "agent", ceiling: [] };
      const answer = await post("/v1/keys", "api", body, { "idempotency-key": `killed-${made}` });
      if (answer.status === 200) answered.push({ tenant, key_id: String(answer.body.key_id) });
      return answer;
    },
    async sign() {
      const { tenant, key_id } = answered.at(-1)!;
      vault.vault.dataKeys.clear();
      return post(`/v1/keys/${key_id}/sign/challenge`, "api", { tenant, ...challenge() });
    },
    rotate: () => post("/v1/kek/rotate", "admin", {}),
    rewrap: () => post("/v1/kek/rewrap", "admin", {}),
    retire: () => post("/v1/kek/retire", "admin", { kek: token.info().keks[0] }),
  };
  const isWell = () =>
    token.health().then(
      () => true,
      () => false,
    );
  expect((await steps.create!()).status).toBe(200);
  for (const delay of [0, 1, 3, 8, 20]) {
    for (const step of Object.keys(steps)) {
      await expect.poll(isWell, { timeout: 60_000 }).toBe(true);
      const pid = token.pid()!;
      const running = steps[step]!();
      await sleep(delay);
      process.kill(pid, "SIGKILL");
      const { status } = await running;
      expect([200, 403, 503], step).toContain(status);
    }
  }
  await expect.poll(isWell, { timeout: 60_000 }).toBe(true);
  vault.vault.dataKeys.clear();
  for (const { tenant, key_id } of answered) {
    const answer = await post(`/v1/keys/${key_id}/sign/challenge`, "api", { tenant, ...challenge() });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  }
  await requireWhole(vault);
  await vault.stop();
  const again = await startVault(home);
  await requireWhole(again);
  expect(again.vault.token.info().keks).toEqual(token.info().keks);
  await again.stop();
});

async function startServing(): Promise<{ child: ChildProcess; url: string }> {
  const child = spawn(process.execPath, [MAIN, "serve"], {
    env: { ...home.environment, KEYVAULT_LOG_LEVEL: "info", KEYVAULT_HEALTH_PORT: undefined },
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: child.stdout! })) {
    const event = JSON.parse(line) as { event?: string; port?: number };
    if (event.event === "listening") return { child, url: `https://localhost:${event.port}` };
  }
  throw new Error("The vault ended");
}

test("the vault killed at any moment of retiring has the version or not, and the next try ends it", async () => {
  const admin = readIdentity(home, "admin");
  const post = (url: string, path: string, body: object = {}) =>
    call(`${url}${path}`, admin, { method: "POST", body });
  for (const delay of [0, 2, 5, 10, 25]) {
    const { child, url } = await startServing();
    const { body } = await post(url, "/v1/kek/rotate");
    const [old] = body.keks as string[];
    await post(url, "/v1/kek/rewrap");
    const remaining = async () =>
      ((await call(`${url}/v1/status`, admin)).body.kek as { remaining: number }).remaining;
    await expect.poll(remaining, { timeout: 30_000 }).toBe(0);
    const retiring = post(url, "/v1/kek/retire", { kek: old }).catch(() => {});
    await sleep(delay);
    child.kill("SIGKILL");
    await once(child, "exit");
    await retiring;
    const vault = await startVault(home);
    await requireWhole(vault);
    if (vault.vault.token.info().keks.includes(old!)) {
      expect((await post(vault.url, "/v1/kek/retire", { kek: old })).status).toBe(200);
    }
    expect(vault.vault.token.info().keks).not.toContain(old);
    const begun = await home.sql(
      "select from audit where statement = 'kek_retire' and outcome = 'granted' and detail ->> 'kek' = $1",
      [old],
    );
    expect(begun.length).toBeGreaterThan(0);
    await vault.makeKey({ tenant: `acc-${delay}`, purpose: "agent", label: "after" });
    await vault.stop();
  }
});
