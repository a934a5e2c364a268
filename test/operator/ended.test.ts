import { describe, expect, test } from "vitest";
import type { Condition, DelegationStatus, Metadata } from "../../src/operator/kinds.ts";
import { endedAt, isRemovable } from "../../src/operator/sweeper.ts";
import { aDelegation, truth } from "./objects.ts";

const THEN = "2026-05-01T12:00:00.000Z";
const since = (type: string, changes: Partial<Condition> = {}) =>
  truth(type, { lastTransitionTime: THEN, ...changes });
const ready = (reason: string) => truth("Ready", { status: "False", reason });
const ended = (reason: string, conditions: Condition[], status: Partial<DelegationStatus> = {}) =>
  aDelegation({ status: { observedGeneration: 1, conditions: [ready(reason), ...conditions], ...status } });
const marked = (metadata: Partial<Metadata>) => aDelegation({ metadata });

describe("a Delegation", () => {
  test.each([
    ["denied", ended("Denied", [since("Denied")])],
    ["revoked", ended("Revoked", [since("Revoked")])],
    ["left undecided until it expired", ended("Expired", [since("Approved", { status: "False" })])],
    [
      "active until its certificate expired",
      ended("Expired", [truth("Approved")], { certStatus: "Expired", expiresAt: THEN }),
    ],
  ])("counts as ended if it was %s", (_, object) => {
    expect(endedAt(object)?.toISOString()).toBe(THEN);
  });

  test.each([
    ["in force", ended("Active", [since("Approved")])],
    ["awaiting approval", ended("AwaitingApproval", [])],
    ["unknown to the service", ended("ExternalMissing", [since("Revoked")])],
    ["denied under another spec", ended("Denied", [since("Denied")], { observedGeneration: 0 })],
    ["denied at an unknown time", ended("Denied", [])],
    ["new", aDelegation()],
  ])("does not count as ended while it is %s", (_, object) => {
    expect(endedAt(object)).toBeUndefined();
  });

  test.each<[string, Partial<Metadata>]>([
    ["Argo CD declares it", { annotations: { "argocd.argoproj.io/tracking-id": "x" } }],
    ["Flux declares it", { labels: { "kustomize.toolkit.fluxcd.io/name": "x" } }],
    ["Helm declares it", { annotations: { "meta.helm.sh/release-name": "x" } }],
    ["it has the annotation to keep it", { annotations: { "deputize.io/keep": "true" } }],
    ["it is being deleted", { deletionTimestamp: THEN }],
  ])("remains after it ended if %s", (_, metadata) => {
    expect(isRemovable(marked(metadata))).toBe(false);
    expect(isRemovable(marked({ labels: { team: "shop" } }))).toBe(true);
  });
});
