import { Registry } from "prom-client";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import { ClusterError } from "../../../src/kubernetes/cluster_error.ts";
import { createLog } from "../../../src/log.ts";
import type { Collection, Page as ListedPage } from "../../../src/operator/cluster/collections.ts";
import { createReflector, type Reflector, togetherState } from "../../../src/operator/cluster/reflector.ts";
import { operatorMetrics } from "../../support/operator_metrics.ts";

const listed = (
  name: string,
  version: number,
  { uid = name, ...metadata }: Record<string, unknown> = {},
) => ({
  metadata: { name, namespace: "default", uid, resourceVersion: String(version), ...metadata },
});
const error = (status?: number, retryAfterMs?: number) =>
  new ClusterError({ verb: "list", resource: "things", status, reason: "Any", retryAfterMs });

type Page = { version: number; items: object[]; continue?: string } | ClusterError;
type WatchEnds = Parameters<Collection["watch"]>[1];
type Watch = {
  query: Readonly<Record<string, string>>;
  at: number;
  send(type: string, object: object): Promise<void>;
  end(failure?: Error): Promise<void>;
};

describe("a reflector", () => {
  let pages: Page[];
  let lists: { query: ListedPage; at: number }[];
  let watches: Watch[];
  let changes: string[];
  let reflector: Reflector<string>;

  const soon = () => vi.advanceTimersByTimeAsync(0);
  const names = () => reflector.values().sort();

  beforeEach(() => {
    vi.useFakeTimers();
    [pages, lists, watches, changes] = [[], [], [], []];
    reflector = createReflector<string>({
      collection: { resource: "things", list, watch },
      read: ({ metadata: { text, name, resourceVersion } }) => String(text ?? `${name}@${resourceVersion}`),
      onChange: ({ namespace, name }) => changes.push(`${namespace}/${name}`),
      clock: systemClock,
      log: createLog("silent", "test"),
      random: () => 0,
    });
  });

  afterEach(async () => {
    await reflector.stop();
    vi.useRealTimers();
  });

  async function list(query: ListedPage): Promise<unknown> {
    lists.push({ query, at: systemClock.now().getTime() });
    const page = pages.shift();
    if (page === undefined) throw error(500);
    if (page instanceof Error) throw page;
    return {
      metadata: { resourceVersion: String(page.version), continue: page.continue },
      items: page.items,
    };
  }

  async function watch(query: Record<string, string>, { signal, onEvent }: WatchEnds): Promise<void> {
    const waiting: unknown[] = [];
    let over: { failure?: Error | undefined } | undefined;
    let wake = () => {};
    const wakeAndRun = async () => {
      wake();
      await soon();
    };
    watches.push({
      query,
      at: systemClock.now().getTime(),
      send: (type, object) => {
        waiting.push({ type, object });
        return wakeAndRun();
      },
      end: (failure) => {
        over = { failure };
        return wakeAndRun();
      },
    });
    signal.addEventListener("abort", () => wake());
    for (;;) {
      while (waiting.length > 0) onEvent(waiting.shift());
      if (signal.aborted) throw new ClusterError({ verb: "watch", resource: "things", reason: "Aborted" });
      if (over?.failure !== undefined) throw over.failure;
      if (over !== undefined) return;
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  }

  const last = () => watches.at(-1) as Watch;

  async function started(version: number, ...items: object[]): Promise<void> {
    pages.push({ version, items });
    await reflector.start();
    await soon();
  }

  test("shows in its metrics lists, failures, and the seconds without an event", async () => {
    const registry = new Registry();
    operatorMetrics(registry).watches(() => [reflector.state()]);
    const shown = async () => {
      const lines = (await registry.metrics()).matchAll(/^(deputize_\w+)\{resource="things"\} (.*)$/gm);
      return Object.fromEntries([...lines].map(([, name, value]) => [name, Number(value)]));
    };
    const metrics = (synced: number, silence: number, lists: number, failures: number) => ({
      deputize_operator_synced: synced,
      deputize_operator_watch_silence_seconds: silence,
      deputize_operator_lists_total: lists,
      deputize_operator_watch_failures_total: failures,
    });
    expect(await shown()).toEqual(metrics(0, 0, 0, 0));
    pages.push(error(500), { version: 7, items: [] });
    const starting = reflector.start();
    await vi.advanceTimersByTimeAsync(5_000);
    await starting;
    expect(await shown()).toMatchObject({
      ...metrics(1, 0, 1, 1),
      deputize_operator_watch_silence_seconds: expect.any(Number),
    });
    await last().send("ADDED", listed("a", 8));
    expect(await shown()).toEqual(metrics(1, 0, 1, 1));
    await vi.advanceTimersByTimeAsync(1_500);
    expect(await shown()).toEqual(metrics(1, 1.5, 1, 1));
  });

  test("lists in pages of 500, and watches from the list's version with bookmarks", async () => {
    pages.push({ version: 7, items: [listed("a", 3)], continue: "more" });
    await started(7, listed("b", 5));
    expect(lists.map(({ query }) => query)).toEqual([{ limit: 500 }, { limit: 500, continue: "more" }]);
    expect(names()).toEqual(["a@3", "b@5"]);
    expect(changes).toEqual(["default/a", "default/b"]);
    expect(last().query).toEqual({
      allowWatchBookmarks: "true",
      resourceVersion: "7",
      timeoutSeconds: "300",
    });
  });

  test("follows additions, changes and deletions", async () => {
    await started(7, listed("a", 3));
    await last().send("ADDED", listed("b", 8));
    await last().send("MODIFIED", listed("a", 9));
    expect(names()).toEqual(["a@9", "b@8"]);
    await last().send("DELETED", listed("a", 10));
    expect(names()).toEqual(["b@8"]);
    expect(changes).toEqual(["default/a", "default/b", "default/a", "default/a"]);
  });

  test("continues from its last version after a watch ends, also from a bookmark", async () => {
    await started(7);
    await last().send("ADDED", listed("a", 8));
    await last().send("BOOKMARK", { metadata: { resourceVersion: "12" } });
    await last().end();
    expect(watches.length).toBe(2);
    expect(last().query.resourceVersion).toBe("12");
    expect(lists.length).toBe(1);
  });

  test("opens the watch again after 90 s of silence", async () => {
    await started(7);
    await vi.advanceTimersByTimeAsync(60_000);
    await last().send("BOOKMARK", { metadata: { resourceVersion: "12" } });
    await vi.advanceTimersByTimeAsync(89_999);
    expect(watches.length).toBe(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(watches.length).toBe(2);
    expect(lists.length).toBe(1);
  });

  test.each([
    ["a status", () => last().end(error(410))],
    ["an event", () => last().send("ERROR", { kind: "Status", code: 410, reason: "Expired" })],
  ])(
    "lists again after %s with code 410, and finds deletions that happened in between",
    async (_, expire) => {
      await started(7, listed("a", 3), listed("b", 4));
      pages.push({ version: 20, items: [listed("b", 4), listed("c", 15)] });
      changes = [];
      await expire();
      await vi.advanceTimersByTimeAsync(200);
      expect(names()).toEqual(["b@4", "c@15"]);
      expect(changes.sort()).toEqual(["default/a", "default/c"]);
      expect(last().query.resourceVersion).toBe("20");
    },
  );

  test("deletes nothing before a list is complete", async () => {
    await started(7, listed("a", 3), listed("b", 4));
    pages.push({ version: 20, items: [listed("a", 3)], continue: "more" }, error(500));
    await last().end(error(410));
    await vi.advanceTimersByTimeAsync(200);
    expect(lists.length).toBe(3);
    expect(names()).toEqual(["a@3", "b@4"]);
    pages.push({ version: 21, items: [listed("a", 3)] });
    await vi.advanceTimersByTimeAsync(400);
    expect(names()).toEqual(["a@3"]);
  });

  test("lists without pages if the cluster discards the list's version between two pages", async () => {
    pages.push({ version: 7, items: [listed("a", 3)], continue: "more" }, error(410));
    void reflector.start();
    await soon();
    pages.push({ version: 8, items: [listed("a", 3), listed("b", 4)] });
    await vi.advanceTimersByTimeAsync(200);
    expect(lists.at(-1)?.query).toEqual({});
    expect(names()).toEqual(["a@3", "b@4"]);
  });

  test("waits longer after each failure, from 0.2 to 30 s, and only briefly after a success", async () => {
    await started(7);
    const fail = async () => {
      const before = systemClock.now().getTime();
      const count = watches.length;
      await last().end(error(500));
      while (watches.length === count) await vi.advanceTimersByTimeAsync(100);
      return systemClock.now().getTime() - before;
    };
    const waits: number[] = [];
    for (let count = 0; count < 9; count += 1) waits.push(await fail());
    expect(waits).toEqual([200, 400, 800, 1600, 3200, 6400, 12_800, 15_000, 15_000]);
    await last().send("ADDED", listed("a", 8));
    expect(await fail()).toBe(200);
    expect(lists.length).toBe(1);
  });

  test("waits as long as the cluster requests", async () => {
    await started(7);
    await last().end(error(429, 5000));
    await vi.advanceTimersByTimeAsync(4999);
    expect(watches.length).toBe(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(watches.length).toBe(2);
  });

  test("counts a watch that ends immediately as a failure", async () => {
    await started(7);
    await last().end();
    expect(watches.length).toBe(1);
    await vi.advanceTimersByTimeAsync(200);
    expect(watches.length).toBe(2);
  });

  test("survives invalid answers", async () => {
    await started(7, listed("a", 3));
    await last().send("SURPRISE", {});
    await vi.advanceTimersByTimeAsync(200);
    await last().send("ADDED", { metadata: { name: "b" } });
    await vi.advanceTimersByTimeAsync(400);
    await last().send("ADDED", listed("c", 9));
    expect(names()).toEqual(["a@3", "c@9"]);
  });

  test("finds changes that a watch omitted through regular lists", async () => {
    await started(7, listed("a", 3), listed("b", 4));
    pages.push({ version: 30, items: [listed("a", 25)] });
    for (let minutes = 0; minutes < 30; minutes += 1) {
      await last().send("BOOKMARK", { metadata: { resourceVersion: "30" } });
      await vi.advanceTimersByTimeAsync(60_000);
    }
    await last().end();
    expect(names()).toEqual(["a@25"]);
  });

  test("adds the operator's own writes to its copy immediately, and never returns to an earlier state", async () => {
    await started(7, listed("a", 3));
    reflector.note(listed("a", 9));
    expect(names()).toEqual(["a@9"]);
    await last().send("MODIFIED", listed("a", 8));
    expect(names()).toEqual(["a@9"]);
    pages.push({ version: 8, items: [listed("a", 8)] });
    await last().end(error(410));
    await vi.advanceTimersByTimeAsync(200);
    expect(names()).toEqual(["a@9"]);
  });

  test("keeps an object that the operator wrote after the cluster made a list without it", async () => {
    await started(7);
    reflector.note(listed("a", 9));
    pages.push({ version: 8, items: [] });
    await last().end(error(410));
    await vi.advanceTimersByTimeAsync(200);
    expect(names()).toEqual(["a@9"]);
  });

  test("does not restore an object that the operator removed, but accepts a new object of that name", async () => {
    await started(7, listed("a", 3));
    reflector.note(listed("a", 8, { deletionTimestamp: "2026-01-01T00:00:00Z" }));
    expect(names()).toEqual([]);
    await last().send("MODIFIED", listed("a", 9));
    expect(names()).toEqual([]);
    await last().send("ADDED", listed("a", 11, { uid: "other" }));
    await last().send("DELETED", listed("a", 10));
    expect(names()).toEqual(["a@11"]);
  });

  test("reports no change if only the version of an object changes", async () => {
    await started(7, listed("a", 3, { text: "one" }));
    changes = [];
    await last().send("MODIFIED", listed("a", 10, { text: "one" }));
    expect(changes).toEqual([]);
    await last().send("MODIFIED", listed("a", 9, { text: "late" }));
    expect(names()).toEqual(["one"]);
    await last().send("MODIFIED", listed("a", 11, { text: "two" }));
    expect(changes).toEqual(["default/a"]);
  });

  test("shows an object again whose labels match the selector again", async () => {
    await started(7, listed("a", 3));
    await last().send("DELETED", listed("a", 10));
    await last().send("MODIFIED", listed("a", 9));
    expect(names()).toEqual([]);
    await last().send("ADDED", listed("a", 12));
    expect(names()).toEqual(["a@12"]);
    await last().send("DELETED", listed("a", 14));
    pages.push({ version: 20, items: [listed("a", 16)] });
    await last().end(error(410));
    await vi.advanceTimersByTimeAsync(200);
    expect(names()).toEqual(["a@16"]);
  });

  test("keeps an object that is being deleted while it has finalizers", async () => {
    await started(7, listed("a", 3));
    reflector.note(listed("a", 8, { deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: ["other"] }));
    expect(names()).toEqual(["a@8"]);
  });

  test("accepts older versions from a restored cluster", async () => {
    await started(70, listed("a", 30), listed("b", 40));
    reflector.noteEnd({ namespace: "default", name: "b", uid: "b" });
    pages.push({ version: 20, items: [listed("a", 10), listed("b", 15)] });
    changes = [];
    await last().end(error(410));
    await vi.advanceTimersByTimeAsync(200);
    expect(names()).toEqual(["a@10", "b@15"]);
    expect(changes.sort()).toEqual(["default/a", "default/b"]);
    expect(last().query.resourceVersion).toBe("20");
  });

  test("reports its lists, its failures, and when it last received anything", async () => {
    await started(7);
    const listedAt = performance.now();
    await vi.advanceTimersByTimeAsync(30_000);
    expect(reflector.state()).toEqual({
      resource: "things",
      isSynced: true,
      activeAt: listedAt,
      lists: 1,
      failures: 0,
    });
    await last().send("BOOKMARK", { metadata: { resourceVersion: "12" } });
    expect(reflector.state().activeAt).toBe(performance.now());
    pages.push({ version: 20, items: [] });
    await last().end(error(410));
    await vi.advanceTimersByTimeAsync(200);
    expect(reflector.state()).toMatchObject({ lists: 2, failures: 1 });
  });

  test("counts with others as synced when all are, and as silent as the most silent one", () => {
    const one = { resource: "a", isSynced: true, activeAt: 5, lists: 1, failures: 2 };
    const other = { resource: "a", isSynced: false, activeAt: 3, lists: 2, failures: 1 };
    const together = { resource: "a", isSynced: false, activeAt: 3, lists: 3, failures: 3 };
    expect(togetherState([one, other])).toEqual(together);
    expect(togetherState([one, one]).isSynced).toBe(true);
  });

  test("resolves its start when the copy is complete, and rejects it if stopped before", async () => {
    const result = reflector.start().then(
      () => "started",
      (failure: Error) => failure.message,
    );
    await vi.advanceTimersByTimeAsync(60_000);
    expect(lists.length).toBeGreaterThan(5);
    await reflector.stop();
    expect(await result).toBe("the copy of the cluster was stopped before it was complete");
    const count = lists.length;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(lists.length).toBe(count);
  });
});
