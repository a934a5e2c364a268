import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { type Delegation, keyOf } from "../../src/operator/kinds.ts";
import { createUrgentTimes } from "../../src/operator/queue_metrics.ts";
import { aDelegation, aPlatform, truth } from "./objects.ts";

const approval = { decision: "Denied", approver: { username: "jane" }, observedGeneration: 1 } as const;

describe("the measured duration of urgent work", () => {
  function seen(...objects: (Delegation | undefined)[]): string[] {
    const told: string[] = [];
    const times = createUrgentTimes((what, seconds) => {
      expect(seconds).toBeGreaterThanOrEqual(0);
      told.push(what);
    });
    for (const object of objects) times.sees(keyOf(aDelegation()), object);
    return told;
  }
  const revoked = aDelegation({ spec: { revoked: true } });
  const deleting = aDelegation({ metadata: { deletionTimestamp: "2026-06-01T11:59:00.000Z" } });
  const decided = aDelegation({ status: { approval } });

  test.each<[string, (Delegation | undefined)[], string[]]>([
    [
      "a revocation until it is confirmed",
      [
        revoked,
        revoked,
        aDelegation({ spec: { revoked: true }, status: { conditions: [truth("Revoked")] } }),
      ],
      ["revoke"],
    ],
    ["a deletion until the object is gone", [aDelegation(), deleting, undefined], ["revoke"]],
    [
      "an approval until it is carried out",
      [decided, aDelegation({ status: { approval, conditions: [truth("Approved")] } })],
      ["decide"],
    ],
    [
      "a denial until it is carried out",
      [decided, aDelegation({ status: { approval, conditions: [truth("Denied")] } })],
      ["decide"],
    ],
    ["only the deletion if it precedes the effect of a decision", [decided, deleting, undefined], ["revoke"]],
    ["no other change", [aDelegation(), aDelegation({ spec: { suspend: true } }), undefined], []],
  ])("covers %s", (_, objects, told) => {
    expect(seen(...objects)).toEqual(told);
  });

  test("starts when the operator first saw the work, however often the object changes meanwhile", async () => {
    const told: number[] = [];
    const times = createUrgentTimes((_, seconds) => told.push(seconds));
    times.sees(keyOf(revoked), revoked);
    await sleep(60);
    times.sees(keyOf(revoked), { ...revoked });
    times.sees(keyOf(revoked), undefined);
    expect(told[0]).toBeGreaterThanOrEqual(0.05);
  });

  test("excludes platforms, and work that spans two terms of leadership", () => {
    const told: string[] = [];
    const times = createUrgentTimes((what) => told.push(what));
    const platform = aPlatform({ metadata: { deletionTimestamp: "2026-06-01T11:59:00.000Z" } });
    times.sees(keyOf(platform), platform);
    times.sees(keyOf(platform), undefined);
    times.sees(keyOf(revoked), revoked);
    times.stops();
    times.sees(keyOf(revoked), undefined);
    expect(told).toEqual([]);
  });
});
