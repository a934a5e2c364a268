import { describe, expect } from "vitest";
import { until } from "../support/process.ts";
import { tenants } from "./folder/folders.ts";
import { agent, condition, delegation, only, platform, folderTest as test } from "./operator_folder.ts";

describe.concurrent("agents in a folder", () => {
  test("receive their key as soon as their platform is registered", async ({ world }) => {
    await world.folders.write("agent.yaml", agent());
    await world.start();
    const waiting = await world.reaches("Agent", "bot", "PlatformNotReady");
    expect(condition(waiting, "Ready")?.message).toContain("does not exist");
    expect(condition(waiting, "Reconciling")?.status).toBe("True");
    await world.folders.write("platform.yaml", platform());
    await until("the missing registration is reported", async () => {
      const state = await world.state("Agent", "bot");
      return condition(state, "Ready")?.message.includes("not registered") === true;
    });
    await world.folders.write("tenants.yaml", tenants());
    const state = await world.reaches("Agent", "bot", "Active");
    const registered = only(world.api.agents);
    expect(state.status).toMatchObject({ agentID: registered.agent_id, custodyMode: "custodial" });
    expect(state.status?.publicKeyFingerprint).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(registered).toMatchObject({ name: "bot", agent_type: "api_agent" });
    expect(condition(state, "KeyReady")?.status).toBe("True");
  });

  test("wait while the vault is unavailable", async ({ world }) => {
    world.api.fail("PUT /internal/v1/agents", "vault_unavailable", 2);
    await world.start();
    await world.folders.write("all.yaml", tenants(), platform(), agent());
    await world.reaches("Agent", "bot", "VaultUnavailable");
    await world.reaches("Agent", "bot", "Active");
  });

  test("keep their registration when they are renamed", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    const { agent_id } = only(world.api.agents);
    await world.folders.write("agent.yaml", agent({ displayName: "Shop bot" }));
    await until("the name is new", () => only(world.api.agents).name === "Shop bot");
    await until(
      "it is ready",
      async () => (await world.state("Agent", "bot")).status?.observedGeneration === 2,
    );
    expect((await world.state("Agent", "bot")).status?.agentID).toBe(agent_id);
  });

  test("do not register while suspended", async ({ world }) => {
    await world.folders.write("all.yaml", tenants(), platform(), agent({ suspend: true }));
    await world.start();
    await world.reaches("Platform", "shop", "Active");
    await world.reaches("Agent", "bot", "Suspended");
    expect(world.api.agents.size).toBe(0);
  });

  test("report that they were disabled in the account", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    only(world.api.agents).disabled = true;
    await world.folders.write("agent.yaml", agent({ displayName: "Touched" }));
    const state = await world.reaches("Agent", "bot", "Revoked");
    expect(condition(state, "KeyReady")?.status).toBe("False");
    await world.folders.write("delegation.yaml", delegation());
    await world.reaches("Delegation", "bot", "AgentNotReady");
  });
});
