import { describe, expect, test } from "vitest";
import { createLog } from "../../../src/log.ts";
import type { ApiFailure } from "../../../src/operator/api_transport.ts";
import type { OperatorContext } from "../../../src/operator/context.ts";
import type { CommonStatus, Delegation } from "../../../src/operator/kinds.ts";
import { STALLED_AFTER_FAILURES, terminate } from "../../../src/operator/reconcile/termination.ts";
import { aDelegation, NOW, truth } from "../objects.ts";

const object = aDelegation({ metadata: { deletionTimestamp: "2026-06-01T11:00:00.000Z" } });

async function end(failure: ApiFailure | undefined, failures = 0, ended = object, isCurrent = true) {
  const written: CommonStatus[] = [];
  let released = 0;
  let finalizerRemoved = false;
  const world = {
    resources: {
      isCurrent: async () => isCurrent,
      writeStatus: async (_: unknown, status: CommonStatus) => void written.push(status),
      setFinalizer: async () => {
        finalizerRemoved = true;
      },
      recordEvent: () => undefined,
    },
    clock: { now: () => NOW },
    log: createLog("silent", "test"),
  } as unknown as OperatorContext;
  const release = async () => {
    released += 1;
    return failure === undefined ? { value: undefined } : { failure };
  };
  const visit = await terminate(world, ended, { dependents: [], release, failures });
  const stalled = written[0]?.conditions?.find(({ type }) => type === "Stalled")?.status;
  return { visit, stalled, finalizerRemoved, released, written };
}

const unknown: ApiFailure = { kind: "refused", code: "not_found", message: "" };
const outage: ApiFailure = { kind: "unavailable", message: "away" };

describe("the termination of an object", () => {
  test("revokes nothing if the object is no longer current", async () => {
    const { released, finalizerRemoved, written } = await end(undefined, 0, object, false);
    expect([released, finalizerRemoved, written]).toEqual([0, false, []]);
  });

  test("removes the finalizer only after the API has confirmed", async () => {
    expect(await end(undefined)).toMatchObject({ finalizerRemoved: true, released: 1, visit: {} });
    expect(await end(outage)).toMatchObject({
      finalizerRemoved: false,
      visit: { retry: true, urgent: true },
    });
    expect(await end({ kind: "refused", code: "internal", message: "" })).toMatchObject({
      finalizerRemoved: false,
    });
  });

  test("completes if neither the API nor the status knows a request", async () => {
    expect(await end(unknown)).toMatchObject({ finalizerRemoved: true });
  });

  const granted = { requestID: "req-1", certID: "cert-1", certStatus: "Active" } as const;
  const past = "2026-06-01T11:59:00.000Z";

  test.each<[string, Delegation["status"]]>([
    ["a certificate in force", granted],
    ["a certificate whose last second has come", { ...granted, expiresAt: NOW.toISOString() }],
    ["a certificate that a previous visit found unknown", { requestID: "req-1", certID: "cert-1" }],
    ["a request that an owner can still approve", { requestID: "req-1" }],
  ])("keeps an object that the API does not know if the status shows %s", async (_, status) => {
    const ended = aDelegation({ metadata: object.metadata, status });
    const { finalizerRemoved, visit, written } = await end(unknown, 0, ended);
    expect(finalizerRemoved).toBe(false);
    expect(visit).toEqual({ afterMs: 30_000 });
    const ready = written[0]?.conditions?.find(({ type }) => type === "Ready");
    expect(ready).toMatchObject({ status: "False", reason: "ExternalMissing" });
    expect(ready?.message).toContain("CLUSTER_ID");
  });

  test.each<[string, Delegation["status"]]>([
    ["was revoked", { ...granted, certStatus: "Revoked" }],
    ["expired", { ...granted, certStatus: "Expired" }],
    ["expired since the last visit", { ...granted, expiresAt: past }],
    ["was withdrawn", { requestID: "req-1", conditions: [truth("Revoked")] }],
    ["was denied", { requestID: "req-1", conditions: [truth("Approved", { status: "False" })] }],
  ])("completes for an object that the API does not know if its authority %s", async (_, status) => {
    const ended = aDelegation({ metadata: object.metadata, status });
    expect(await end(unknown, 0, ended)).toMatchObject({ finalizerRemoved: true });
  });

  test("counts as stalled after many failures, but continues to retry", async () => {
    expect(await end(outage, STALLED_AFTER_FAILURES - 2)).toMatchObject({ stalled: "False" });
    const late = await end(outage, STALLED_AFTER_FAILURES - 1);
    expect(late).toMatchObject({ stalled: "True", finalizerRemoved: false, visit: { retry: true } });
  });

  test("waits for the time that the API requests", async () => {
    expect((await end({ ...outage, retryAfterMs: 7000 })).visit).toMatchObject({ notBeforeMs: 7000 });
  });

  test("ignores an object without this operator's finalizer", async () => {
    const other = aDelegation({ metadata: { finalizers: ["example.test/other"], deletionTimestamp: "x" } });
    expect(await end(undefined, 0, other)).toMatchObject({ released: 0, finalizerRemoved: false });
  });

  test("writes nothing after a newer leader has taken over", async () => {
    expect((await end({ kind: "superseded", message: "" })).written).toEqual([]);
  });

  test("writes the same failure to the status only once", async () => {
    const [status] = (await end(outage)).written;
    const again = aDelegation({ metadata: object.metadata, status: { ...status } });
    expect((await end(outage, 1, again)).written).toEqual([]);
  });
});
