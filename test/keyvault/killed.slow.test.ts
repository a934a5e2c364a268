import { setTimeout as sleep } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { startVault, type TestVault } from "./fixture.ts";

/*
 * Here the token's process is killed. process.slow.test.ts and kek/killed.slow.test.ts kill the whole vault.
 */

vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 });

async function requireWhole(vault: TestVault): Promise<void> {
  const { home } = vault;
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

test("the vault stays consistent if its token process is killed at any step, and every key that it returned signs", async () => {
  const vault = await startVault();
  const { token } = vault.vault;
  const answered: { tenant: string; key_id: string }[] = [];
  let made = 0;
  const steps: Record<string, () => Promise<{ status: number }>> = {
    async create() {
      const tenant = `acc-${++made}`;
      const body = { tenant, purpose: "agent", label: "agent", ceiling: [] };
      const answer = await vault.post("/v1/keys", body, vault.api, { "idempotency-key": `killed-${made}` });
      if (answer.status === 200) answered.push({ tenant, key_id: String(answer.body.key_id) });
      return answer;
    },
    async sign() {
      const { tenant, key_id } = answered.at(-1)!;
      vault.vault.dataKeys.clear();
      return vault.sign(key_id, tenant);
    },
    rotate: () => vault.post("/v1/kek/rotate", {}, vault.admin),
    rewrap: () => vault.post("/v1/kek/rewrap", {}, vault.admin),
    retire: () => vault.post("/v1/kek/retire", { kek: token.info().keks[0] }, vault.admin),
  };
  const isWell = () =>
    token.health().then(
      () => true,
      () => false,
    );
  expect((await steps.create!()).status).toBe(200);
  for (const delay of [0, 1, 5, 20]) {
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
    const answer = await vault.sign(key_id, tenant);
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  }
  await requireWhole(vault);
  const again = await vault.restart();
  await requireWhole(again);
  expect(again.vault.token.info().keks).toEqual(token.info().keks);
  await again.close();
});
