import { describe, expect } from "vitest";
import { until } from "../support/process.ts";
import { tenants } from "./folder/folders.ts";
import { agent, condition, delegation, only, platform, folderTest as test } from "./operator_folder.ts";

describe.concurrent("deletion in a folder", () => {
  test("waits until dependent objects are gone, then completes", async ({ world }) => {
    await world.start();
    await world.folders.write("all.yaml", tenants(), platform({ deletionPolicy: "Delete" }));
    await world.folders.write("agent.yaml", agent({ deletionPolicy: "Delete" }));
    await world.folders.write("delegation.yaml", delegation());
    await world.reaches("Delegation", "bot", "AwaitingApproval");
    await world.folders.write("all.yaml", tenants());
    const waiting = await world.reaches("Platform", "shop", "DependentsExist");
    expect(condition(waiting, "Ready")?.message).toContain("Agent bot, Delegation bot");
    await world.folders.remove("agent.yaml");
    await world.reaches("Agent", "bot", "DependentsExist");
    expect(only(world.api.agents).disabled).toBe(false);
    await world.folders.remove("delegation.yaml");
    for (const [kind, name] of [
      ["Delegation", "bot"],
      ["Agent", "bot"],
      ["Platform", "shop"],
    ] as const) {
      await world.gone(kind, name);
    }
    expect(only(world.api.delegations).status).toBe("withdrawn");
    expect(only(world.api.agents).disabled).toBe(true);
    expect(only(world.api.platforms).removed).toBe(true);
    expect(await world.credentials()).toBeUndefined();
  });

  test("leaves platform, key and Secret in place under the policy Retain", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    await world.folders.remove("agent.yaml");
    await world.folders.remove("platform.yaml");
    await world.gone("Agent", "bot");
    await world.gone("Platform", "shop");
    expect(only(world.api.agents).disabled).toBe(false);
    expect(only(world.api.platforms).removed).toBe(false);
    expect(await world.credentials()).toBeDefined();
  });

  test("lets new objects of the same names adopt the retained platform, agent, key and Secret", async ({
    world,
  }) => {
    await world.start();
    await world.declareAgent();
    const before = await world.credentials();
    const agentId = (await world.state("Agent", "bot")).status?.agentID;
    for (const file of ["agent.yaml", "platform.yaml"]) await world.folders.remove(file);
    await world.gone("Agent", "bot");
    await world.gone("Platform", "shop");
    await world.declareAgent();
    await world.reaches("Platform", "shop", "Active");
    expect((await world.state("Agent", "bot")).status?.agentID).toBe(agentId);
    expect(await world.credentials()).toEqual(before);
    expect(only(world.api.platforms).retired).toEqual([]);
    await world.folders.write("platform.yaml", platform({ credentialsSecretName: "moved" }));
    await until("it is moved", async () => (await world.credentials("moved")) !== undefined);
    await until("the former one is gone", async () => (await world.credentials()) === undefined);
  });

  test("completes for objects that were never registered", async ({ world }) => {
    await world.folders.write("all.yaml", platform({ deletionPolicy: "Delete" }), agent(), delegation());
    await world.start();
    await world.reaches("Delegation", "bot", "PlatformNotReady");
    await world.folders.write("all.yaml", "# empty\n");
    await world.gone("Delegation", "bot");
    await world.gone("Platform", "shop");
  });

  test("waits while the API is unavailable, even for a suspended object, and then revokes", async ({
    world,
  }) => {
    await world.start();
    const requestId = await world.declareDelegation();
    world.api.approve(requestId, ["data:read"]);
    await world.reaches("Delegation", "bot", "Active");
    await world.folders.write("delegation.yaml", delegation({ suspend: true }));
    await world.api.goAway();
    await world.folders.remove("delegation.yaml");
    const state = await world.reaches("Delegation", "bot", "Terminating");
    expect(state.metadata.finalizers).toEqual(["deputize.io/revoke"]);
    await world.api.comeBack();
    await world.gone("Delegation", "bot");
    expect(only(world.api.delegations).status).toBe("revoked");
  });
});
