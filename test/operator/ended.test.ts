import { describe, expect, test } from "vitest";
import { createLog } from "../../src/log.ts";
import type { Condition, DelegationStatus, Metadata } from "../../src/operator/kinds.ts";
import type { Resources } from "../../src/operator/resources.ts";
import { endedAt, isRemovable, startEndedRemoval } from "../../src/operator/sweeper.ts";
import { until } from "../support/process.ts";
import { aDelegation, NOW, truth } from "./objects.ts";

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

  test("disappears when its retention time is over, not before, and only while the operator leads", async () => {
    const named = (name: string, at: string) => {
      const object = ended("Denied", [since("Denied", { lastTransitionTime: at })]);
      return { ...object, metadata: { ...object.metadata, name } };
    };
    const minutesAgo = (minutes: number) => new Date(NOW.getTime() - minutes * 60_000).toISOString();
    const objects = [named("old", minutesAgo(61)), named("young", minutesAgo(59))];
    const removed: string[] = [];
    let looks = 0;
    const list = () => {
      looks += 1;
      return objects;
    };
    const resources = { list } as unknown as Resources;
    const context = { resources, clock: { now: () => NOW }, log: createLog("silent", "test") };
    const remove = async ({ metadata }: { metadata: Metadata }) => void removed.push(metadata.name);
    const options = { ttlMs: 3_600_000, remove, everyMs: 5 };
    const other = startEndedRemoval(context, () => false, options);
    await until("it has checked several times", () => looks > 2);
    await other.stop();
    expect(removed).toEqual([]);
    const leader = startEndedRemoval(context, () => true, options);
    await until("a delegation is deleted", () => removed.length > 0);
    await leader.stop();
    expect(new Set(removed)).toEqual(new Set(["old"]));
  });
});
