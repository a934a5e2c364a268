import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { keepVaultSynced, syncVault } from "../../src/platforms/sync_vault.ts";
import { VaultRefused, VaultUnavailable } from "../../src/vault/client.ts";
import { createAgent, delegated, registerPlatform } from "../support/platform_world.ts";
import { agentsWorld } from "./agents_world.ts";

const { api, call } = agentsWorld();

describe("syncing the vault", () => {
  test("continues after the vault refuses a key, and tries that key only once", async () => {
    const gone = await delegated(api);
    const well = await delegated(api);
    api.vault.failure = new VaultUnavailable("unreachable", "away");
    for (const { platform, agentId } of [gone, well]) await call(platform, "DELETE", `/${agentId}`);
    api.vault.failure = undefined;
    api.vault.keys.delete(gone.agentId);
    expect(await syncVault(api)).toBe(2);
    expect(api.vault.keys.get(well.agentId)!.disabled).toBe(true);
    expect(await syncVault(api)).toBe(0);
  });

  test("keeps an agent due for the next sync if the vault is too busy or fails, and syncs the other agents", async () => {
    const { platform, agentId } = await delegated(api);
    const other = await createAgent(api.client(), platform);
    const busy = new VaultRefused("rate_limited", "busy", 429);
    const broken = new VaultUnavailable("key_damaged", "broken");
    for (const failure of [busy, broken]) {
      api.vault.failure = failure;
      await call(platform, "DELETE", `/${agentId}`);
      expect((await api.db("agents").where({ agent_id: agentId }).first())!.vault_due_at).not.toBeNull();
    }
    api.vault.failure = undefined;
    const disable = api.vault.disableKey;
    api.vault.disableKey = (key) => (key.keyId === agentId ? Promise.reject(broken) : disable(key));
    await call(platform, "DELETE", `/${other}`);
    api.vault.disableKey = disable;
    expect([agentId, other].map((id) => api.vault.keys.get(id)!.disabled)).toEqual([false, true]);
    expect(await syncVault(api)).toBe(1);
    expect(api.vault.keys.get(agentId)!.disabled).toBe(true);
  });

  test("makes one call to an unreachable vault, not one per agent", async () => {
    const person = await api.person();
    const platform = await registerPlatform(person);
    for (let n = 0; n < 3; n += 1) await createAgent(api.client(), platform);
    api.vault.failure = new VaultUnavailable("unreachable", "away");
    const before = api.vault.calls.length;
    await person.client.call("DELETE", `/v1/service/connections/${platform.connectionId}`);
    expect(api.vault.calls.length - before).toBe(1);
    api.vault.failure = undefined;
    expect(await syncVault(api, platform.connectionId)).toBe(3);
  });

  test("keeps a change due that is made while the vault applies an earlier change", async () => {
    const { person, platform, agentId } = await delegated(api);
    const narrow = (scopes: string[]) =>
      person.client.call("PATCH", `/v1/service/platforms/${platform.platformId}`, {
        body: { default_allowed_scopes: scopes },
      });
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    const { promise: reached, resolve: reach } = Promise.withResolvers<void>();
    const shrink = api.vault.shrinkCeiling;
    api.vault.shrinkCeiling = async (...call) => {
      await shrink(...call);
      reach();
      await held;
    };
    const earlier = narrow(["data:read", "data:share"]);
    await reached;
    api.vault.shrinkCeiling = () => Promise.reject(new VaultUnavailable("unreachable", "away"));
    api.clock.advance(1);
    await narrow(["data:read"]);
    api.vault.shrinkCeiling = shrink;
    release();
    await earlier;
    expect(await syncVault(api, platform.connectionId)).toBe(1);
    expect(api.vault.keys.get(agentId)!.ceiling).toEqual(["data:read"]);
  });

  test("repeats automatically until stopped", async () => {
    const { platform, agentId } = await delegated(api);
    api.vault.failure = new VaultUnavailable("unreachable", "away");
    await call(platform, "DELETE", `/${agentId}`);
    const vaultSync = keepVaultSynced(api, 10);
    const asked = api.vault.calls.length;
    await expect.poll(() => api.vault.calls.length).toBeGreaterThan(asked + 2);
    api.vault.failure = undefined;
    await expect.poll(() => api.vault.keys.get(agentId)!.disabled).toBe(true);
    await vaultSync.stop();
    const other = await delegated(api);
    api.vault.failure = new VaultUnavailable("unreachable", "away");
    await call(other.platform, "DELETE", `/${other.agentId}`);
    const after = api.vault.calls.length;
    await sleep(100);
    expect(api.vault.calls).toHaveLength(after);
    api.vault.failure = undefined;
    expect(await syncVault(api)).toBe(1);
  });

  test("logs the remaining work without secrets", async () => {
    const { platform, agentId } = await delegated(api);
    api.vault.failure = new VaultUnavailable("sealed", "The vault is sealed");
    await call(platform, "DELETE", `/${agentId}`);
    const logged = api.lines.filter((line) => line.includes(agentId)).join();
    expect(logged).toContain("The vault is sealed");
    expect(logged).not.toContain(platform.apiKey.slice(13));
  });
});
