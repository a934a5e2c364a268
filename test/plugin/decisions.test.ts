import { describe, expect, test } from "vitest";
import type { Delegation } from "../../src/plugin/objects.ts";
import { fakeKubectl } from "./fake_kubectl.ts";

const delegation: Delegation = {
  apiVersion: "deputize.io/v1alpha1",
  kind: "Delegation",
  metadata: { name: "bot", namespace: "shop", uid: "1", resourceVersion: "5", generation: 1 },
  spec: {
    platformRef: { name: "shop" },
    agentRef: { name: "bot" },
    scopes: ["data:read", "data:share"],
    ttl: "24h",
  },
};
const GET = "get delegations.deputize.io";
const PATCH = "patch delegations.deputize.io";
const CONFLICT = { fails: "Error from server (Conflict): the object has been modified" };
const kubectl = fakeKubectl();
const { run, calls } = kubectl;
const who = { "auth whoami": { status: { userInfo: { username: "jane" } } } };

/** Returns the object with a newer version and these changes. */
const changed = (metadata: object, status?: object) => ({
  ...delegation,
  metadata: { ...delegation.metadata, resourceVersion: "6", ...metadata },
  ...(status && { status }),
});
const decided = (reason: string, decision?: string) =>
  changed(
    {},
    {
      conditions: [{ type: "Ready", status: "False", reason, message: "because" }],
      ...(decision && { approval: { decision } }),
    },
  );
const patches = async () => (await calls()).filter(([verb]) => verb === "patch");
const written = (patch: string[] = []) => JSON.parse(patch[patch.indexOf("-p") + 1] ?? "");

describe("a decision", () => {
  test("grants the selected scopes, and rejects scopes that were not requested", async () => {
    const answers = { [GET]: delegation, ...who, [PATCH]: {} };
    expect(await run(["approve", "bot", "-y", "--no-wait", "--scopes", "data:read"], answers)).toBe(0);
    const [patch] = await patches();
    expect(written(patch).status.approval.approvedScopes).toEqual(["data:read"]);
    expect(await run(["approve", "bot", "-y", "--scopes", "data:read,payments:send"], answers)).toBe(2);
    expect(kubectl.notes).toContain("Scopes not requested: payments:send");
    expect(await patches()).toHaveLength(1);
  });

  test("writes nothing if --timeout is wrong", async () => {
    const answers = { [GET]: delegation, ...who, [PATCH]: {} };
    expect(await run(["approve", "bot", "-y", "--timeout", "abc"], answers)).toBe(2);
    expect(kubectl.notes).toContain("--timeout must be a number of seconds");
    // The file of kubectl's calls does not exist, because there were none.
    await expect(patches()).rejects.toThrow("ENOENT");
  });

  test("runs as a server-side dry run, without a question, if --dry-run is given", async () => {
    kubectl.answer = false;
    const answers = { [GET]: delegation, ...who, [PATCH]: {} };
    expect(await run(["approve", "bot", "--dry-run"], answers)).toBe(0);
    expect((await patches())[0]).toContain("--dry-run=server");
    expect(kubectl.out).toContain("would be approved (dry run)");
  });

  test("succeeds at the next attempt if the operator wrote to the object in between", async () => {
    const answers = { [GET]: [delegation, changed({})], ...who, [PATCH]: [CONFLICT, {}] };
    expect(await run(["deny", "bot", "-y", "--no-wait"], answers)).toBe(0);
    const versions = (await patches()).map((patch) => written(patch).metadata.resourceVersion);
    expect(versions).toEqual(["5", "6"]);
  });

  test.each([
    ["created again", { uid: "2" }],
    ["changed", { generation: 2 }],
  ])("fails if the object was %s after the user saw it", async (_, metadata) => {
    const answers = { [GET]: [delegation, changed(metadata)], ...who, [PATCH]: [CONFLICT, {}] };
    expect(await run(["deny", "bot", "-y", "--no-wait"], answers)).toBe(1);
    expect(kubectl.notes).toContain("The delegation has changed since it was shown");
    expect(await patches()).toHaveLength(1);
  });

  test.each([
    ["Active", "Approved", 0],
    ["Denied", "Denied", 0],
    ["Denied", "Approved", 1],
    ["ApproverNotLinked", "Approved", 1],
    ["FourEyesRequired", "Approved", 1],
    ["ExternalMissing", "Approved", 1],
  ])(
    "ends with the reason %s after the decision %s, and the plugin exits with status %i",
    async (reason, decision, status) => {
      const answers = { [GET]: [delegation, decided(reason, decision)], ...who, [PATCH]: {} };
      expect(await run(["approve", "bot", "-y"], answers)).toBe(status);
      expect(kubectl.out).toContain(`delegation/bot is ${reason}: because`);
    },
  );
});
