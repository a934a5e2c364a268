import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { nextName, renewed } from "../../src/plugin/commands/renew.ts";
import { commands } from "../../src/plugin/commands.ts";
import type { Delegation } from "../../src/plugin/objects.ts";
import { fakeKubectl, NOW } from "./fake_kubectl.ts";

const delegation: Delegation = {
  apiVersion: "deputize.io/v1alpha1",
  kind: "Delegation",
  metadata: { name: "bot", namespace: "shop", uid: "1", resourceVersion: "5", generation: 1 },
  spec: { platformRef: { name: "shop" }, agentRef: { name: "bot" }, scopes: ["data:read"], ttl: "24h" },
};

describe("the plugin", () => {
  const kubectl = fakeKubectl();
  const { run, calls } = kubectl;
  const me = { status: { userInfo: { username: "jane" } } };

  test("prints its help and the help of each command", async () => {
    expect(await run(["--help"])).toBe(0);
    expect(kubectl.out).toContain("kubectl deputize <command>");
    expect([await run([]), kubectl.notes]).toEqual([2, kubectl.out]);
    for (const name of ["status", "approve", "revoke"]) expect(await run([name, "--help"])).toBe(0);
    expect(kubectl.out).toContain("kubectl deputize approve <delegation>");
    for (const line of kubectl.out.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });

  test.each([["-V"], ["--version"], ["status", "--version"]])(
    "prints its version for %s %s",
    async (...args) => {
      expect([await run(args), kubectl.out, kubectl.notes]).toEqual([0, "1.2.3\n", ""]);
    },
  );

  test.each([
    [["aprove", "bot"], "There is no command aprove"],
    [["__proto__"], "There is no command __proto__"],
    [["approve"], "Name the delegation"],
    [["approve", "a", "b"], "Name only one object, not also b"],
    [["approve", "bot", "--scope", "x"], "Unknown option '--scope'"],
    [["status", "-o", "yaml"], "--output must be json"],
    [["status", "--confirm"], "--confirm needs --orphans"],
    [["status", "bot", "--orphans"], "--orphans takes no name"],
  ])("rejects the command line %j with an explanation", async (args, message) => {
    expect(await run(args)).toBe(2);
    expect(kubectl.notes).toContain(message);
    expect(kubectl.out).toBe("");
  });

  test("documents every command", async () => {
    const page = await readFile(new URL("../../docs/kubectl.md", import.meta.url), "utf8");
    const named = [...page.matchAll(/^\| `([a-z-]+)/gm)].map(([, name]) => name);
    expect(named.sort()).toEqual(Object.keys(commands).sort());
  });

  test("passes the options for cluster, namespace and user to every call of kubectl", async () => {
    await run(["status", "-n", "bank", "--context=prod", "--as", "jane", "--as-group", "a", "--as-group=b"], {
      "get platforms.deputize.io,agents.deputize.io,delegations.deputize.io": { items: [] },
    });
    expect((await calls())[0]?.slice(2).sort()).toEqual(
      [
        "--as-group=a",
        "--as-group=b",
        "--as=jane",
        "--context=prod",
        "--namespace=bank",
        "-o",
        "json",
      ].sort(),
    );
  });

  test("writes no decision unless the user confirms", async () => {
    kubectl.answer = false;
    expect(
      await run(["approve", "bot"], { "get delegations.deputize.io": delegation, "auth whoami": me }),
    ).toBe(1);
    expect(kubectl.notes).toContain("Nothing was decided");
    expect((await calls()).map(([first]) => first)).not.toContain("patch");
  });

  test("writes a decision in the user's name, for the version that the user saw", async () => {
    await run(["deny", "bot", "--no-wait", "-y", "-m", "no"], {
      "get delegations.deputize.io": delegation,
      "auth whoami": me,
      "patch delegations.deputize.io": {},
    });
    const patch = (await calls()).find(([first]) => first === "patch") ?? [];
    expect(patch).toContain("--subresource=status");
    expect(JSON.parse(patch[patch.indexOf("-p") + 1] ?? "")).toEqual({
      metadata: { resourceVersion: "5" },
      status: {
        approval: {
          decision: "Denied",
          approver: { username: "jane" },
          observedGeneration: 1,
          message: "no",
        },
      },
    });
  });

  test.each<
    [string, Partial<Delegation["spec"]> | undefined, Partial<Delegation["metadata"]> | undefined, string]
  >([
    ["the user's own request", { requestedBy: "jane" }, undefined, "You requested this delegation"],
    ["a revoked delegation", { revoked: true }, undefined, "The delegation is revoked"],
    [
      "a delegation under deletion",
      undefined,
      { deletionTimestamp: NOW.toISOString() },
      "The delegation is being deleted",
    ],
  ])("refuses to decide %s", async (_, spec, metadata, message) => {
    const object = {
      ...delegation,
      spec: { ...delegation.spec, ...spec },
      metadata: { ...delegation.metadata, ...metadata },
    };
    expect(
      await run(["approve", "bot", "-y"], { "get delegations.deputize.io": object, "auth whoami": me }),
    ).toBe(1);
    expect(kubectl.notes).toContain(message);
  });

  test("escapes control characters in names and errors", async () => {
    await run(["status"], {
      "get platforms.deputize.io,agents.deputize.io,delegations.deputize.io": { fails: "no\u001b[2J" },
    });
    expect(kubectl.notes).toBe("no\\u{1b}[2J\n");
  });

  test("reports that kubectl is not installed", async () => {
    kubectl.program = `${kubectl.program}-is-not-there`;
    expect(await run(["status"])).toBe(1);
    expect(kubectl.notes).toContain("was not found: install it");
  });

  test.each([
    ["bot", [], "bot-2"],
    ["bot-2", [], "bot-3"],
    ["bot", ["bot-2", "bot-3"], "bot-4"],
    [`${"a".repeat(62)}b`, [], `${"a".repeat(61)}-2`],
  ])("renews %s, if %j exist, as %s", (name, taken, next) => {
    expect(nextName(name, new Set(taken))).toBe(next);
  });

  test("renews a request without its expiry, its owner marks and its former requester", () => {
    const old = {
      ...delegation,
      metadata: {
        ...delegation.metadata,
        labels: { team: "shop", "kustomize.toolkit.fluxcd.io/name": "x" },
        annotations: {
          "kubectl.kubernetes.io/last-applied-configuration": "x",
          "deputize.io/keep": "true",
          note: "n",
        },
      },
      spec: { ...delegation.spec, revoked: true, revokeReason: "over", suspend: true, requestedBy: "ed" },
    };
    expect(renewed(old, { name: "bot-2", ttl: undefined, username: "jane" })).toEqual({
      apiVersion: "deputize.io/v1alpha1",
      kind: "Delegation",
      metadata: { name: "bot-2", namespace: "shop", labels: { team: "shop" }, annotations: { note: "n" } },
      spec: { ...delegation.spec, requestedBy: "jane" },
    });
    const { ttl: _, ...spec } = delegation.spec;
    const ended = { ...delegation, spec: { ...spec, expiresAt: "2026-05-01T00:00:00Z" } };
    expect(() => renewed(ended, { name: "b", ttl: undefined, username: "jane" })).toThrow("--ttl");
    expect(renewed(ended, { name: "b", ttl: "1h", username: "jane" })).toMatchObject({ spec: { ttl: "1h" } });
  });
});
