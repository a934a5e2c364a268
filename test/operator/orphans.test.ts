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

/** Ten delegations, of which those named have no object, in a cluster that is well. */
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

describe("a sweep", () => {
  test("finds nothing where every delegation has its object", () => {
    expect(sweep(input([]))).toEqual({
      record: { checkedAt: NOW.toISOString(), epoch: 7, state: "ok", items: [] },
      revoke: [],
    });
  });

  test("lists what has lost its object, since when it was first seen, and when it is revoked", () => {
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
    ["not before its grace has run out", "2026-06-01T11:00:00.001Z", []],
    ["when its grace has run out", "2026-06-01T11:00:00.000Z", ["c1.d1"]],
  ])("revokes it %s", (_, since, expected) => {
    const former = { record: record({ items: [orphan("d1", since)] }), confirmed: undefined };
    expect(sweep(input(["d1"], { former })).revoke).toEqual(expected);
  });

  test("revokes nothing where no grace is set, and forgets what has its object again", () => {
    const former = {
      record: record({ items: [orphan("d1", "2020-01-01T00:00:00.000Z")] }),
      confirmed: undefined,
    };
    const listed = sweep(input(["d1"], { former, graceMs: undefined }));
    expect(listed.revoke).toEqual([]);
    expect(listed.record.items[0]?.revokeAt).toBeUndefined();
    expect(sweep(input([], { former })).record.items).toEqual([]);
  });

  describe("holds, and revokes nothing,", () => {
    const old = "2020-01-01T00:00:00.000Z";
    const overdue = (changes: Partial<SweepRecord> = {}, confirmed?: number) => ({
      former: { record: record({ items: [orphan("d1", old)], ...changes }), confirmed },
    });

    test.each<[string, Partial<SweepInput>, string]>([
      ["in a cluster that knows another last leader", overdue({ epoch: 3 }), "restored"],
      ["in a cluster that knows none", { former: undefined }, "restored"],
      ["in a cluster without any object", { ...overdue(), isEmpty: true }, "emptied"],
      ["where it was held before", overdue({ state: "held" }), "nobody has confirmed"],
      ["where somebody confirmed for another leader", overdue({ state: "held" }, 6), "nobody has confirmed"],
    ])("%s", (_, changes, why) => {
      const { record: next, revoke } = sweep(input(["d1"], changes));
      expect(next).toMatchObject({ state: "held", why: expect.stringContaining(why) });
      expect(next.why).toContain('deputize.io/confirmed: "7"');
      expect(revoke).toEqual([]);
    });

    test("when many are gone at once", () => {
      const names = Array.from({ length: 100 }, (_, n) => `d${n}`);
      const many = (count: number) =>
        sweep({
          ...input([]),
          live: names.map(live),
          present: new Set(names.slice(count).map((name) => `c1.${name}`)),
        }).record.state;
      expect([many(20), many(21)]).toEqual(["ok", "held"]);
    });

    test("until an administrator confirms", () => {
      const { record: next, revoke } = sweep(input(["d1"], overdue({ state: "held" }, 7)));
      expect([next.state, revoke]).toEqual(["ok", ["c1.d1"]]);
      expect(next.items[0]?.confirmed).toBe(true);
    });

    test("what loses its object after an administrator has confirmed", () => {
      const names = Array.from({ length: 30 }, (_, n) => `d${n}`);
      const all = { live: names.map(live), present: new Set<string>() };
      const first = sweep(input([], { ...all, ...overdue({ state: "held" }, 7) }));
      expect([first.record.state, first.revoke]).toEqual(["held", ["c1.d1"]]);
      const next = sweep(input([], { ...all, former: { record: first.record, confirmed: undefined } }));
      expect([next.record.state, next.revoke]).toEqual(["held", ["c1.d1"]]);
      const emptied = overdue({ state: "ok" }, 7);
      expect(sweep(input(["d1", "d2"], { ...emptied, isEmpty: true })).record.state).toBe("held");
    });

    test("what was confirmed in a cluster that was restored since", () => {
      const confirmed = { items: [{ ...orphan("d1", old), confirmed: true as const }] };
      expect(sweep(input(["d1"], overdue(confirmed))).revoke).toEqual(["c1.d1"]);
      expect(sweep(input(["d1"], overdue({ ...confirmed, epoch: 6 }))).revoke).toEqual(["c1.d1"]);
      const restored = sweep(input(["d1"], overdue({ ...confirmed, epoch: 3 })));
      expect([restored.record.state, restored.revoke]).toEqual(["held", []]);
    });
  });

  test("goes on under the next leader, and under the first one that a cluster has", () => {
    expect(sweep(input(["d1"], { epoch: 8, formerEpoch: 7 })).record.state).toBe("ok");
    expect(sweep(input(["d1"], { formerEpoch: null, former: undefined })).record.state).toBe("ok");
  });

  test("records no more than a ConfigMap holds, and how many more there are", () => {
    const names = Array.from({ length: 1_500 }, (_, n) => `d${n}`);
    const { record: next } = sweep({ ...input([]), live: names.map(live), present: new Set() });
    expect([next.items.length, next.more]).toEqual([1_000, 500]);
    expect(JSON.stringify(next, undefined, 1).length).toBeLessThan(1_000_000);
  });

  test("misses nothing of namespaces that are not watched", () => {
    const elsewhere = { ...live("d11"), namespace: "bank" };
    const nowhere = { ...live("d12"), namespace: null };
    const all = { live: [...input([]).live, elsewhere, nowhere] };
    const { record, revoke } = sweep(input(["d1"], { ...all, watched: ["shop"], graceMs: 0 }));
    expect(record.items.map(({ name }) => name)).toEqual(["d1"]);
    expect(revoke).toEqual(["c1.d1"]);
    expect(sweep(input([], all)).record.items.map(({ name }) => name)).toEqual(["d11", "d12"]);
  });
});
