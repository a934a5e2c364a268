import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect } from "vitest";
import { until } from "../support/process.ts";
import {
  condition,
  delegation,
  type OperatorFolder,
  only,
  platform,
  folderTest as test,
} from "./operator_folder.ts";

/** Returns five times as many milliseconds as some work takes, plus three seconds. */
async function amplyFor(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return 3_000 + 5 * (performance.now() - start);
}

describe.concurrent("delegations in a folder", () => {
  /** Returns the types of all events with this reason, and waits until there is one. */
  async function eventsOf(world: OperatorFolder, reason: string): Promise<string[]> {
    let types: string[] = [];
    await until(`there is an event ${reason}`, async () => {
      const text = await readFile(join(world.folders.status, "events.jsonl"), "utf8");
      const lines = text.split("\n").filter((line) => line.includes('"Delegation/') && line.endsWith("}"));
      const events = lines.map((line) => JSON.parse(line) as { type: string; reason: string });
      types = events.filter((event) => event.reason === reason).map(({ type }) => type);
      return types.length > 0;
    });
    return types;
  }

  test("request approval once, and show a link while they wait for the owner", async ({ world }) => {
    await world.start();
    const requestId = await world.declareDelegation();
    const state = await world.state("Delegation", "bot");
    expect(condition(state, "Ready")).toMatchObject({
      status: "False",
      message: `The account's owner decides at https://console.example.test/requests/${requestId}`,
    });
    const statuses = state.status?.conditions?.map(({ type, status }) => `${type} ${status}`);
    expect(statuses).toEqual([
      "Ready False",
      "Reconciling True",
      "Stalled False",
      "ReferencesResolved True",
      "WithinCeiling True",
      "Requested True",
      "Approved Unknown",
      "Denied Unknown",
      "Issued Unknown",
      "Revoked False",
    ]);
    expect(only(world.api.delegations).desired).toMatchObject({
      requested_scope: ["data:read", "payments:send"],
      expires_in: 86_400,
    });
    expect(only(world.api.delegations).desired).not.toHaveProperty("expires_at");
  });

  test("become active within seconds of an approval, with the approved scopes", async ({ world }) => {
    await world.start();
    const requestId = await world.declareDelegation();
    world.api.approve(requestId, ["data:read"]);
    const state = await world.reaches("Delegation", "bot", "Active");
    const { cert_id, expires_at } = only(world.api.delegations);
    expect(state.status).toMatchObject({
      requestID: requestId,
      certID: cert_id,
      certStatus: "Active",
      approvedScope: ["data:read"],
      expiresAt: expires_at,
      decidedBy: "owner@example.test",
    });
    for (const type of ["Ready", "Approved", "Issued"]) expect(condition(state, type)?.status).toBe("True");
    expect(condition(state, "Denied")?.status).toBe("False");
    expect(world.api.callsTo("PUT", "/delegations")).toHaveLength(1);
  });

  test("report a denial and its reason", async ({ world }) => {
    await world.start();
    const requestId = await world.declareDelegation();
    world.api.decide(requestId, "denied", "not this one");
    const state = await world.reaches("Delegation", "bot", "Denied");
    expect(condition(state, "Ready")?.message).toContain("not this one");
    expect(condition(state, "Denied")?.status).toBe("True");
    expect(condition(state, "Stalled")?.status).toBe("True");
  });

  test("report that nobody decided in time", async ({ world }) => {
    await world.start();
    const requestId = await world.declareDelegation();
    world.api.decide(requestId, "expired");
    await world.reaches("Delegation", "bot", "Expired");
  });

  test("report that their expiry passed before a decision, even if nothing else changed", async ({
    world,
  }) => {
    await world.start();
    const untilExpiry = await amplyFor(world.declareAgent);
    const expiresAt = new Date(Date.now() + untilExpiry).toISOString();
    await world.declareDelegation({ ttl: undefined, expiresAt });
    const state = await world.reaches("Delegation", "bot", "Expired", untilExpiry + 20_000);
    expect(condition(state, "Ready")?.message).toBe("expiresAt passed before anybody decided");
    expect(condition(state, "Stalled")?.status).toBe("True");
  });

  test("report that their certificate has expired, even if nothing else changed", async ({ world }) => {
    await world.start();
    let requestId = "";
    const untilExpiry = await amplyFor(async () => {
      requestId = await world.declareDelegation();
    });
    world.api.approve(requestId, ["data:read"], new Date(Date.now() + untilExpiry));
    await world.reaches("Delegation", "bot", "Active");
    const state = await world.reaches("Delegation", "bot", "Expired", untilExpiry + 20_000);
    expect(state.status).toMatchObject({ certStatus: "Expired" });
    expect(condition(state, "Ready")?.status).toBe("False");
  });

  test("make no request if their expiry has already passed", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    const past = delegation({ ttl: undefined, expiresAt: "2020-01-01T00:00:00Z" });
    await world.folders.write("delegation.yaml", past);
    await world.reaches("Delegation", "bot", "Expired");
    expect(world.api.delegations.size).toBe(0);
  });

  test("end permanently when revoked, with the given reason", async ({ world }) => {
    await world.start();
    const requestId = await world.declareDelegation();
    world.api.approve(requestId, ["data:read"]);
    await world.reaches("Delegation", "bot", "Active");
    await world.folders.write(
      "delegation.yaml",
      delegation({ revoked: true, revokeReason: "left the team" }),
    );
    const state = await world.reaches("Delegation", "bot", "Revoked");
    expect(only(world.api.delegations)).toMatchObject({ status: "revoked", reason: "left the team" });
    expect(state.status).toMatchObject({ certStatus: "Revoked" });
    expect(condition(state, "Revoked")?.status).toBe("True");
    expect(condition(state, "Stalled")?.status).toBe("False");
    expect(await eventsOf(world, "Revoked")).toEqual(["Normal"]);
    await world.folders.write("delegation.yaml", delegation());
    await until(
      "setting revoked back to false is refused",
      async () => (await world.folders.errors()).length === 1,
    );
    expect(only(world.api.delegations).status).toBe("revoked");
  });

  test("withdraw a pending request when revoked, and request nothing if revoked earlier", async ({
    world,
  }) => {
    await world.start();
    await world.declareDelegation();
    await world.folders.write("delegation.yaml", delegation({ revoked: true }));
    await world.reaches("Delegation", "bot", "Revoked");
    expect(only(world.api.delegations).status).toBe("withdrawn");
    await world.folders.write("other.yaml", delegation({ revoked: true }, { name: "other" }));
    await world.reaches("Delegation", "other", "Revoked");
    expect(world.api.delegations.size).toBe(1);
  });

  test("end when their manifest is removed, and request approval again when the manifest is back", async ({
    world,
  }) => {
    await world.start();
    const requestId = await world.declareDelegation();
    world.api.approve(requestId, ["data:read"]);
    await world.reaches("Delegation", "bot", "Active");
    await world.folders.remove("delegation.yaml");
    await world.gone("Delegation", "bot");
    expect(only(world.api.delegations)).toMatchObject({
      status: "revoked",
      reason: "The Delegation was deleted",
    });
    await world.folders.write("delegation.yaml", delegation());
    const state = await world.reaches("Delegation", "bot", "AwaitingApproval");
    expect(state.status?.requestID).not.toBe(requestId);
    expect(world.api.delegations.size).toBe(2);
  });

  test("end when revoked, even while suspended", async ({ world }) => {
    await world.start();
    const requestId = await world.declareDelegation();
    world.api.approve(requestId, ["data:read"]);
    await world.reaches("Delegation", "bot", "Active");
    await world.folders.write("delegation.yaml", delegation({ suspend: true }));
    await until("the message explains that suspending revokes nothing", async () => {
      const ready = condition(await world.state("Delegation", "bot"), "Ready");
      return ready?.status === "True" && ready.message.includes("suspending takes nothing back");
    });
    await world.folders.write("delegation.yaml", delegation({ suspend: true, revoked: true }));
    await world.reaches("Delegation", "bot", "Revoked");
    expect(only(world.api.delegations).status).toBe("revoked");
  });

  test("neither request nor revoke anything when the service no longer knows them", async ({ world }) => {
    await world.start();
    const requestId = await world.declareDelegation();
    world.api.approve(requestId, ["data:read"]);
    const active = await world.reaches("Delegation", "bot", "Active");
    world.api.delegations.clear();
    await world.folders.write("platform.yaml", platform({ displayName: "Touched" }));
    const state = await world.reaches("Delegation", "bot", "ExternalMissing");
    expect(condition(state, "Stalled")?.status).toBe("True");
    expect(condition(state, "Issued")?.status).toBe("Unknown");
    expect(state.status).toMatchObject({ requestID: requestId, certID: active.status?.certID });
    expect(state.status?.certStatus).toBeUndefined();
    expect(await eventsOf(world, "ExternalMissing")).toEqual(["Warning"]);
    await world.folders.write("delegation.yaml", delegation({ revoked: true }));
    await until("it was reconciled", async () => {
      const seen = (await world.state("Delegation", "bot")).status?.observedGeneration;
      return seen === (await world.state("Delegation", "bot")).metadata.generation && seen === 2;
    });
    expect(condition(await world.state("Delegation", "bot"), "Ready")?.reason).toBe("ExternalMissing");
    expect(world.api.delegations.size).toBe(0);
    expect(world.api.callsTo("PUT", "/delegations")).toHaveLength(1);
    expect(condition(await world.state("Delegation", "bot"), "Revoked")?.status).toBe("Unknown");
  });

  test("remain after their deletion while the service does not know their certificate", async ({ world }) => {
    await world.start();
    const requestId = await world.declareDelegation();
    world.api.approve(requestId, ["data:read"]);
    await world.reaches("Delegation", "bot", "Active");
    const known = new Map(world.api.delegations);
    world.api.delegations.clear();
    await world.folders.remove("delegation.yaml");
    const kept = await world.reaches("Delegation", "bot", "ExternalMissing");
    expect(kept.metadata.finalizers).toEqual(["deputize.io/revoke"]);
    expect(condition(kept, "Stalled")?.status).toBe("True");
    await world.stop();
    for (const [id, delegation] of known) world.api.delegations.set(id, delegation);
    await world.start();
    await world.gone("Delegation", "bot");
    expect(only(world.api.delegations).status).toBe("revoked");
  });

  test("can be deleted and requested again if the service no longer knows that they ended", async ({
    world,
  }) => {
    await world.start();
    const requestId = await world.declareDelegation();
    world.api.decide(requestId, "denied", "no");
    await world.reaches("Delegation", "bot", "Denied");
    world.api.delegations.clear();
    await world.folders.write("platform.yaml", platform({ displayName: "Touched" }));
    const state = await world.reaches("Delegation", "bot", "ExternalMissing");
    expect(condition(state, "Denied")?.status).toBe("True");
    await world.folders.remove("delegation.yaml");
    await world.gone("Delegation", "bot");
    await world.folders.write("delegation.yaml", delegation());
    await world.reaches("Delegation", "bot", "AwaitingApproval");
  });

  test("show a revocation in the console after the next reconciliation", async ({ world }) => {
    await world.start();
    const requestId = await world.declareDelegation();
    world.api.approve(requestId, ["data:read"]);
    await world.reaches("Delegation", "bot", "Active");
    world.api.decide(requestId, "revoked", "in the console");
    await world.folders.write("platform.yaml", platform({ displayName: "Touched" }));
    const state = await world.reaches("Delegation", "bot", "Revoked");
    expect(condition(state, "Ready")?.message).toContain("in the console");
    expect(condition(state, "Stalled")?.status).toBe("True");
    expect(await eventsOf(world, "Revoked")).toEqual(["Warning"]);
  });

  test.for([
    [
      "a platform that does not exist",
      { platformRef: { name: "other" } },
      "PlatformNotReady",
      "other does not exist",
    ],
    [
      "an agent that does not exist",
      { agentRef: { name: "other" } },
      "AgentNotReady",
      "other does not exist",
    ],
    ["a scope above the ceiling", { scopes: ["data:read", "data:share"] }, "CeilingExceeded", "data:share"],
    ["a scope that does not exist", { scopes: ["data:fly"] }, "InvalidScopes", "data:fly"],
    ["suspend", { suspend: true }, "Suspended", "suspended"],
  ] as const)("make no request with %s", async ([_, spec, reason, message], { world }) => {
    await world.start();
    await world.declareAgent();
    await world.folders.write("delegation.yaml", delegation(spec));
    const state = await world.reaches("Delegation", "bot", reason);
    expect(condition(state, "Ready")?.message).toContain(message);
    expect(condition(state, "Requested")?.status).toBe("False");
    expect(world.api.delegations.size).toBe(0);
  });

  test("make no request for an agent of a different platform", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    await world.folders.write("second.yaml", platform({}, { name: "second" }));
    await world.reaches("Platform", "second", "Active");
    await world.folders.write("delegation.yaml", delegation({ platformRef: { name: "second" } }));
    const state = await world.reaches("Delegation", "bot", "AgentNotReady");
    expect(condition(state, "Ready")?.message).toContain("belongs to Platform shop");
  });

  test("stay active and report a ceiling that shrinks below the approved scopes", async ({ world }) => {
    await world.start();
    const requestId = await world.declareDelegation();
    world.api.approve(requestId, ["data:read", "payments:send"]);
    await world.reaches("Delegation", "bot", "Active");
    await world.folders.write("platform.yaml", platform({ defaultAllowedScopes: ["data:read"] }));
    await until("the message reports it", async () => {
      return condition(await world.state("Delegation", "bot"), "WithinCeiling")?.status === "False";
    });
    const state = await world.state("Delegation", "bot");
    expect(condition(state, "Ready")).toMatchObject({ status: "True", reason: "Active" });
    expect(condition(state, "Ready")?.message).toContain("no longer contains: payments:send");
  });

  test("report that the API refuses their constraints", async ({ world }) => {
    world.api.fail("PUT /internal/v1/delegations", "invalid_constraints");
    await world.start();
    await world.declareAgent();
    await world.folders.write("delegation.yaml", delegation());
    await world.reaches("Delegation", "bot", "InvalidSpec");
  });
});
