import { Registry } from "prom-client";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { systemClock } from "../../src/clock.ts";
import type { Logger } from "../../src/log.ts";
import type { AnyObject, Delegation, Kind } from "../../src/operator/kinds.ts";
import type { HeldRecord, SweepRecord } from "../../src/operator/orphans.ts";
import {
  type EndedOptions,
  type SweepOptions,
  startEndedRemoval,
  startSweeper,
} from "../../src/operator/sweeper.ts";
import type { LiveDelegation } from "../../src/operator_calls.ts";
import { logged } from "../support/logged.ts";
import { operatorMetrics } from "../support/operator_metrics.ts";
import { aDelegation, aPlatform, truth } from "./objects.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const FAILED = "the search for delegations without an object failed";

const live = (name: string, namespace = "default"): LiveDelegation => ({
  external_id: name,
  namespace,
  name,
  status: "approved",
});

describe("the regular tasks of a leader", () => {
  let objects: AnyObject[];
  let pages: LiveDelegation[][];
  let stored: HeldRecord | undefined;
  let written: { record: SweepRecord; isTaken: boolean }[];
  let revoked: string[];
  let asked: number;
  let isHeld: boolean;
  let agrees: boolean;
  let apiFails: "leadership" | "listDelegations" | undefined;
  let recordsFail: boolean;
  /** Called at each revocation or deletion, before it takes effect. */
  let meanwhile: (name: string) => void;
  let running: { stop(): Promise<void> } | undefined;
  let registry: Registry;
  let log: Logger;
  let lines: string[];

  const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);
  const failure = { kind: "unavailable", message: "away" } as const;
  const resources = {
    serves: () => true,
    list: (kind: Kind) => {
      asked += 1;
      return objects.filter((object) => object.kind === kind);
    },
  } as never;

  beforeEach(() => {
    vi.useFakeTimers();
    objects = [aPlatform()];
    pages = [[]];
    stored = undefined;
    [written, revoked, asked] = [[], [], 0];
    isHeld = true;
    apiFails = undefined;
    recordsFail = false;
    meanwhile = () => undefined;
    registry = new Registry();
    ({ log, lines } = logged());
    agrees = true;
  });
  afterEach(async () => {
    await running?.stop();
    vi.useRealTimers();
  });

  const clock = { ...systemClock, agreed: () => (agrees ? new Date() : undefined) };
  const api = {
    leadership: async () =>
      apiFails === "leadership" ? { failure } : { value: { epoch: 7, former_epoch: null } },
    async listDelegations(after: string | null) {
      const page = after === null ? 0 : Number(after);
      if (apiFails === "listDelegations" && page === pages.length - 1) return { failure };
      const next = page + 1 < pages.length ? String(page + 1) : null;
      return { value: { delegations: pages[page] ?? [], next } };
    },
    async revokeDelegation(id: string, { reason }: { reason: string }) {
      meanwhile(id);
      revoked.push(`${id}: ${reason}`);
      return { value: {} };
    },
  } as never;

  function sweep(options: Partial<SweepOptions> = {}): void {
    running = startSweeper(
      {
        resources,
        api,
        clock,
        externalIdOf: ({ metadata }) => metadata.uid,
        log,
        metrics: operatorMetrics(registry),
      },
      () => isHeld,
      {
        records: {
          async read() {
            if (recordsFail) throw new Error("away");
            return stored;
          },
          async write(record, { isTaken }) {
            written.push({ record, isTaken });
            stored = { record, confirmed: isTaken ? undefined : stored?.confirmed };
          },
        },
        graceMs: HOUR,
        ...options,
      },
    );
  }

  const orphans = async () => {
    const { values = [] } = (await registry.getSingleMetric("deputize_operator_orphans")?.get()) ?? {};
    return Object.fromEntries(values.map(({ labels, value }) => [labels.state, value]));
  };

  test("revoke nothing while the operator's clock disagrees with the API's", async () => {
    objects.push(aDelegation({ metadata: { uid: "kept" } }));
    pages = [[live("kept"), live("lost")]];
    sweep();
    await pass(MINUTE);
    agrees = false;
    await pass(2 * HOUR);
    expect([written.length, revoked]).toEqual([1, []]);
    agrees = true;
    await pass(10 * MINUTE);
    expect(revoked).toHaveLength(1);
  });

  test("sweep after a minute and then every ten minutes, over all pages of the API's list", async () => {
    objects.push(aDelegation({ metadata: { uid: "kept" } }));
    pages = [[live("kept")], [live("lost")]];
    sweep();
    await pass(MINUTE - 1);
    expect(written).toEqual([]);
    await pass(1);
    expect(written).toMatchObject([{ record: { state: "ok", epoch: 7, items: [{ name: "lost" }] } }]);
    expect(await orphans()).toEqual({ ok: 1 });
    await pass(10 * MINUTE - 1);
    expect(written).toHaveLength(1);
    await pass(1);
    expect(written).toHaveLength(2);
  });

  test("revoke a delegation in the sweep after its grace period, and log it", async () => {
    pages = [[live("lost")]];
    sweep({ everyMs: 30 * MINUTE });
    await pass(MINUTE + 30 * MINUTE);
    expect(revoked).toEqual([]);
    await pass(30 * MINUTE);
    expect(revoked).toEqual(["lost: Its object is gone from the cluster"]);
    expect(lines).toEqual(["warn a delegation without an object is revoked"]);
  });

  test("watch only the delegations of the operator's namespaces", async () => {
    pages = [[live("a", "shop"), live("b", "bank")]];
    sweep({ watched: ["bank"] });
    await pass(MINUTE);
    expect(written[0]?.record.items.map(({ name }) => name)).toEqual(["b"]);
  });

  test.each<[string, () => void]>([
    ["the API does not answer who leads", () => (apiFails = "leadership")],
    ["the API does not return the whole list", () => (apiFails = "listDelegations")],
    ["the records cannot be read", () => (recordsFail = true)],
  ])("write nothing while %s, log it, and sweep again", async (_, fail) => {
    pages = [[live("a")], [live("b")]];
    fail();
    sweep();
    await pass(MINUTE);
    expect(written).toEqual([]);
    expect(lines).toEqual([expect.stringContaining(FAILED)]);
    [apiFails, recordsFail] = [undefined, false];
    await pass(10 * MINUTE);
    expect(written).toHaveLength(1);
  });

  test("show a held sweep in log and metric, and use a confirmation for one sweep only", async () => {
    objects = [];
    pages = [[live("a"), live("b")]];
    sweep({ graceMs: 0 });
    await pass(MINUTE);
    expect([written[0]?.record.state, revoked, await orphans()]).toEqual(["held", [], { held: 2 }]);
    expect(lines[0]).toContain("warn The cluster contains no Deputize object");
    expect(written[0]?.isTaken).toBe(false);
    stored = { record: written[0]?.record as SweepRecord, confirmed: 7 };
    await pass(10 * MINUTE);
    expect(written[1]).toMatchObject({ isTaken: true, record: { state: "ok" } });
    expect(revoked).toHaveLength(2);
    pages = [[live("c")]];
    await pass(10 * MINUTE);
    expect([written[2]?.record.state, revoked.length]).toEqual(["held", 2]);
    expect(await orphans()).toEqual({ held: 1 });
  });

  test("write and revoke nothing if the process no longer leads, or loses the lead halfway", async () => {
    pages = [[live("a"), live("b"), live("c")]];
    isHeld = false;
    sweep({ graceMs: 0 });
    await pass(MINUTE);
    expect([written, revoked]).toEqual([[], []]);
    isHeld = true;
    meanwhile = () => (isHeld = false);
    await pass(10 * MINUTE);
    expect([written.length, revoked.length]).toEqual([1, 1]);
  });

  test("end with the revocation in progress when they are stopped", async () => {
    pages = [[live("a"), live("b")]];
    sweep({ graceMs: 0 });
    meanwhile = () => void running?.stop();
    await pass(MINUTE);
    await pass(HOUR);
    expect([written.length, revoked.length]).toEqual([1, 1]);
  });

  describe("delete Delegations that have ended", () => {
    let removed: string[];
    let removalFails: boolean;

    const denied = (name: string, minutesAgo: number): Delegation =>
      aDelegation({
        metadata: { name },
        status: {
          observedGeneration: 1,
          conditions: [
            truth("Ready", { status: "False", reason: "Denied" }),
            truth("Denied", { lastTransitionTime: new Date(Date.now() - minutesAgo * MINUTE).toISOString() }),
          ],
        },
      });

    function remove(options: Partial<EndedOptions> = {}): void {
      running = startEndedRemoval({ resources, clock, log }, () => isHeld, {
        ttlMs: HOUR,
        async remove({ metadata }) {
          meanwhile(metadata.name);
          if (removalFails) throw new Error("refused");
          removed.push(metadata.name);
          objects = objects.filter((object) => object.metadata.name !== metadata.name);
        },
        ...options,
      });
    }

    beforeEach(() => {
      [removed, removalFails] = [[], false];
    });

    test("every minute, each as soon as its retention time is over", async () => {
      objects = [denied("old", 60), denied("young", 58), aDelegation()];
      remove();
      await pass(MINUTE - 1);
      expect([removed, asked]).toEqual([[], 0]);
      await pass(1);
      expect(removed).toEqual(["old"]);
      expect(lines).toEqual(["info a delegation that has ended is deleted"]);
      await pass(MINUTE);
      expect(removed).toEqual(["old", "young"]);
      await running?.stop();
      await pass(HOUR);
      expect(asked).toBe(2);
    });

    test("not while the operator's clock disagrees with the API's", async () => {
      objects = [denied("old", 60)];
      agrees = false;
      remove();
      await pass(2 * MINUTE);
      expect(removed).toEqual([]);
      agrees = true;
      await pass(MINUTE);
      expect(removed).toEqual(["old"]);
    });

    test("again after a deletion failed, which is logged", async () => {
      objects = [denied("old", 60)];
      removalFails = true;
      remove();
      await pass(MINUTE);
      expect(lines).toEqual(["warn the deletion of ended delegations failed"]);
      removalFails = false;
      await pass(MINUTE);
      expect(removed).toEqual(["old"]);
    });

    test("only while the process leads, even if it loses the lead halfway", async () => {
      objects = [denied("a", 60), denied("b", 60)];
      isHeld = false;
      remove();
      await pass(MINUTE);
      expect(removed).toEqual([]);
      isHeld = true;
      meanwhile = () => (isHeld = false);
      await pass(MINUTE);
      expect(removed).toEqual(["a"]);
    });
  });
});
