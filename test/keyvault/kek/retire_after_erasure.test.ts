import { afterAll, beforeAll, expect, test } from "vitest";
import { createTenantDestruction } from "../../../keyvault/lifecycle/destroy_tenant.ts";
import { createErasing } from "../../../keyvault/lifecycle/erase_due.ts";
import { readIdentity, startVault, type TestVault } from "../fixture.ts";
import { call } from "../http/caller_support.ts";

const AFTER_DAYS = 7;
const DAY_SECONDS = 86_400;

let vault: TestVault;

beforeAll(async () => {
  vault = await startVault();
  for (const tenant of ["acc-1", "acc-2"]) {
    await vault.makeKey({ tenant, purpose: "agent", label: "agent", ceiling: [] });
  }
});
afterAll(() => vault.close());

const post = (path: string, body: unknown = {}) =>
  call(`${vault.url}${path}`, readIdentity(vault.home, "admin"), { method: "POST", body });

test("a tenant that was destroyed, and so has no data key any more, keeps no version from being retired", async () => {
  const parts = { ...vault.vault, clock: vault.clock, accepts: () => true };
  const destroy = createTenantDestruction(parts);
  for (const name of ["alice", "bob"]) {
    await destroy({ role: "admin", name, certificate: name }, "acc-1", AFTER_DAYS);
  }
  vault.clock.move(AFTER_DAYS * DAY_SECONDS);
  expect(await createErasing(parts)()).toEqual({ keys: 0, tenants: 1 });
  await post("/v1/kek/rotate");
  await post("/v1/kek/rewrap");
  await expect
    .poll(async () => (await post("/v1/kek/retire", { kek: "kek-1" })).body, { timeout: 30_000 })
    .toEqual({ retired: "kek-1", keks: ["kek-2"] });
});
