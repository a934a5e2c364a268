import { describe, expect, test } from "vitest";
import { type SweepInput, type SweepRecord, sweep } from "../../src/operator/orphans.ts";

const NOW = new Date("2026-06-01T12:00:00.000Z");
const HOUR = 3_600_000;
const live = (name: string) => ({
  external_id: `c1.${name}`,
  namespace: "shop",
  name,
  status: "approved" as const,
});
const record = (changes: Partial<SweepRecord> = {}): SweepRecord => ({
  checkedAt: "2026-06-01T11:50:00.000Z",
  epoch: 7,
  state: "ok",
  items: [],
  ...changes,
});
const orphan = (name: string, since: string) => ({
  externalID: `c1.${name}`,
  kind: "Delegation" as const,
  namespace: "shop",
  name,
  status: "approved" as const,
  since,
});

/** Returns a healthy cluster with ten delegations. Those in `gone` have no object. */
function input(gone: string[], changes: Partial<SweepInput> = {}): SweepInput {
  const names = Array.from({ length: 10 }, (_, n) => `d${n}`);
  return {
    now: NOW,
    epoch: 7,
    formerEpoch: 6,
    former: { record: record(), confirmed: undefined },
    live: names.map(live),
    present: new Set(names.filter((name) => !gone.includes(name)).map((name) => `c1.${name}`)),
    isEmpty: false,
    graceMs: HOUR,
    ...changes,
  };
}

describe("a sweep for orphans", () => {
  test("finds nothing if every delegation has its object", () => {
    expect(sweep(input([]))).toEqual({
      record: { checkedAt: NOW.toISOString(), epoch: 7, state: "ok", items: [] },
      revoke: [],
    });
  });

  test("lists orphans with the time of their first sighting and of their revocation", () => {
    const first = sweep(input(["d1"]));
    expect(first.record.items).toEqual([
      { ...orphan("d1", NOW.toISOString()), revokeAt: "2026-06-01T13:00:00.000Z" },
    ]);
    expect(first.revoke).toEqual([]);
    const before = record({ items: [orphan("d1", "2026-06-01T11:30:00.000Z")] });
    const next = sweep(input(["d1", "d2"], { former: { record: before, confirmed: undefined } }));
    expect(next.record.items.map(({ since }) => since)).toEqual([
      "2026-06-01T11:30:00.000Z",
      NOW.toISOString(),
    ]);
  });

  test.each([
    ["not before its grace period has ended", "2026-06-01T11:00:00.001Z", []],
    ["when its grace period has ended", "2026-06-01T11:00:00.000Z", ["c1.d1"]],
  ])("revokes an orphan %s", (_, since, expected) => {
    const former = { record: record({ items: [orphan("d1", since)] }), confirmed: undefined };
    expect(sweep(input(["d1"], { former })).revoke).toEqual(expected);
  });

  test("revokes nothing without a grace period, and drops orphans whose object is back", () => {
    const former = {
      record: record({ items: [orphan("d1", "2020-01-01T00:00:00.000Z")] }),
      confirmed: undefined,
    };
    const listed = sweep(input(["d1"], { former, graceMs: undefined }));
    expect(listed.revoke).toEqual([]);
    expect(listed.record.items[0]?.revokeAt).toBeUndefined();
    expect(sweep(input([], { former })).record.items).toEqual([]);
  });

  describe("does not revoke", () => {
    const old = "2020-01-01T00:00:00.000Z";
    const overdue = (changes: Partial<SweepRecord> = {}, confirmed?: number) => ({
      former: { record: record({ items: [orphan("d1", old)], ...changes }), confirmed },
    });

    test.each<[string, Partial<SweepInput>, string]>([
      [
        "all orphans in a cluster whose last recorded leader is not the last leader known to the service",
        overdue({ epoch: 3 }),
        "restored",
      ],
      ["all orphans in a cluster without a recorded leader", { former: undefined }, "restored"],
      ["all orphans in a cluster without any objects", { ...overdue(), isEmpty: true }, "emptied"],
      ["all orphans if the last sweep held them", overdue({ state: "held" }), "nobody has confirmed"],
      [
        "all orphans if the confirmation was for a different leader",
        overdue({ state: "held" }, 6),
        "nobody has confirmed",
      ],
    ])("%s", (_, changes, why) => {
      const { record: next, revoke } = sweep(input(["d1"], changes));
      expect(next).toMatchObject({ state: "held", why: expect.stringContaining(why) });
      expect(next.why).toContain('deputize.io/confirmed: "7"');
      expect(revoke).toEqual([]);
    });

    test("all orphans when many objects disappear together", () => {
      const names = Array.from({ length: 100 }, (_, n) => `d${n}`);
      const many = (count: number) =>
        sweep({
          ...input([]),
          live: names.map(live),
          present: new Set(names.slice(count).map((name) => `c1.${name}`)),
        }).record.state;
      expect([many(20), many(21)]).toEqual(["ok", "held"]);
    });

    test("held orphans until an administrator confirms them", () => {
      const { record: next, revoke } = sweep(input(["d1"], overdue({ state: "held" }, 7)));
      expect([next.state, revoke]).toEqual(["ok", ["c1.d1"]]);
      expect(next.items[0]?.confirmed).toBe(true);
    });

    test("orphans that were found after the confirmation", () => {
      const names = Array.from({ length: 30 }, (_, n) => `d${n}`);
      const all = { live: names.map(live), present: new Set<string>() };
      const first = sweep(input([], { ...all, ...overdue({ state: "held" }, 7) }));
      expect([first.record.state, first.revoke]).toEqual(["held", ["c1.d1"]]);
      const next = sweep(input([], { ...all, former: { record: first.record, confirmed: undefined } }));
      expect([next.record.state, next.revoke]).toEqual(["held", ["c1.d1"]]);
      const emptied = overdue({ state: "ok" }, 7);
      expect(sweep(input(["d1", "d2"], { ...emptied, isEmpty: true })).record.state).toBe("held");
    });

    test("confirmed orphans if the cluster was restored after the confirmation", () => {
      const confirmed = { items: [{ ...orphan("d1", old), confirmed: true as const }] };
      expect(sweep(input(["d1"], overdue(confirmed))).revoke).toEqual(["c1.d1"]);
      expect(sweep(input(["d1"], overdue({ ...confirmed, epoch: 6 }))).revoke).toEqual(["c1.d1"]);
      const restored = sweep(input(["d1"], overdue({ ...confirmed, epoch: 3 })));
      expect([restored.record.state, restored.revoke]).toEqual(["held", []]);
    });
  });

  test("waits for no confirmation after a change of the leader, or under the first leader of a cluster", () => {
    expect(sweep(input(["d1"], { epoch: 8, formerEpoch: 7 })).record.state).toBe("ok");
    expect(sweep(input(["d1"], { formerEpoch: null, former: undefined })).record.state).toBe("ok");
  });

  test("records as many orphans as fit into a ConfigMap, and the number of further orphans", () => {
    const names = Array.from({ length: 1_500 }, (_, n) => `d${n}`);
    const { record: next } = sweep({ ...input([]), live: names.map(live), present: new Set() });
    expect([next.items.length, next.more]).toEqual([1_000, 500]);
    expect(JSON.stringify(next, undefined, 1).length).toBeLessThan(1_000_000);
  });

  test("ignores delegations in namespaces that are not watched", () => {
    const elsewhere = { ...live("d11"), namespace: "bank" };
    const nowhere = { ...live("d12"), namespace: null };
    const all = { live: [...input([]).live, elsewhere, nowhere] };
    const { record, revoke } = sweep(input(["d1"], { ...all, watched: ["shop"], graceMs: 0 }));
    expect(record.items.map(({ name }) => name)).toEqual(["d1"]);
    expect(revoke).toEqual(["c1.d1"]);
    expect(sweep(input([], all)).record.items.map(({ name }) => name)).toEqual(["d11", "d12"]);
  });
});
