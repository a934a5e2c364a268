import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Condition } from "../../../src/operator/kinds.ts";
import { soonFrom } from "../../../src/operator/reconcile/delegation_expiry.ts";
import { delegationStatus } from "../../../src/operator/reconcile/delegation_status.ts";
import { until } from "../../support/process.ts";
import { aDelegation, anApproval, aState, NOW, truth } from "../objects.ts";
import { condition, folderTest } from "../operator_folder.ts";

const inSeconds = (seconds: number) => new Date(NOW.getTime() + seconds * 1000).toISOString();
const lasting = (seconds: number) =>
  anApproval({ issued_at: NOW.toISOString(), expires_at: inSeconds(seconds) });
const verdict = { reason: "Active", message: "" } as const;
const DAY = 86_400;

describe("a certificate", () => {
  test.each([
    ["an hour", 3600, 3240],
    ["a minute", 60, 54],
    ["70 days", 70 * DAY, 63 * DAY],
    ["a year", 365 * DAY, 358 * DAY],
  ])(
    "counts as expiring soon in the last tenth of a lifetime of %s, at most seven days before its expiry",
    (_, life, from) => {
      expect(soonFrom(lasting(life))?.toISOString()).toBe(inSeconds(from));
    },
  );

  test("never counts as expiring soon if it has no expiry, is not approved yet, or is revoked", () => {
    expect(soonFrom(anApproval({ expires_at: null }))).toBeUndefined();
    expect(soonFrom(aState({ expires_at: inSeconds(1) }))).toBeUndefined();
    expect(soonFrom(anApproval({ status: "revoked" }))).toBeUndefined();
  });

  const found = (seconds: number, before: Condition[] = []): string | undefined => {
    const object = aDelegation({ status: { conditions: before } });
    const now = new Date(NOW.getTime() + seconds * 1000);
    const input = { object, state: lasting(3600), now, consoleUrl: "" };
    return delegationStatus(input, verdict).conditions.find(({ type }) => type === "ExpiresSoon")?.status;
  };
  test("has the condition ExpiresSoon only while it is in force", () => {
    expect(found(3239)).toBe("False");
    expect(found(3240)).toBe("True");
    expect(found(3600)).toBe("True");
    expect(found(3601, [truth("ExpiresSoon")])).toBeUndefined();
  });

  describe("in a folder", () => {
    folderTest(
      "causes one event when it starts to expire soon, even if no user changes anything",
      async ({ world }) => {
        const soonEvents = async () =>
          (await readFile(join(world.folders.status, "events.jsonl"), "utf8"))
            .split("\n")
            .filter((line) => line.includes('"ExpiresSoon"'));
        await world.start();
        const request = await world.declareDelegation();
        world.api.approve(request, ["data:read"], new Date(Date.now() + 10_000));
        await world.reaches("Delegation", "bot", "Active");
        const isSoon = async () => condition(await world.state("Delegation", "bot"), "ExpiresSoon")?.status;
        expect(await isSoon()).toBe("False");
        await until("its end is near", async () => (await isSoon()) === "True");
        await until("the event is recorded", async () => (await soonEvents()).length > 0);
        await world.stop();
        await world.start();
        await world.reaches("Delegation", "bot", "Expired");
        expect(await soonEvents()).toHaveLength(1);
      },
    );
  });
});
