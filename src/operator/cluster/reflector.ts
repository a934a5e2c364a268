import { z } from "zod";
import type { Clock } from "../../clock.ts";
import { type Backoff, backoff } from "../../concurrency/backoff.ts";
import { ClusterError, errorOfAnswer, errorOfTransport, isStatus } from "../../kubernetes/cluster_error.ts";
import { pause } from "../../kubernetes/pause.ts";
import type { Logger } from "../../log.ts";
import type { WatchState } from "../operator_metrics.ts";
import type { Collection } from "./collections.ts";
import { createCopy, type Entry, type ObjectName } from "./copy.ts";

/** Maintains a local copy of all objects of one kind. */
export type Reflector<T> = {
  /** Resolves when the copy is complete. Rejects only if the reflector is stopped first. */
  start(): Promise<void>;
  get(namespace: string, name: string): T | undefined;
  values(): T[];
  /** Adds the cluster's answer to a write of one object to the copy. */
  note(answer: unknown): void;
  state(): WatchState;
  /** Removes an object from the copy because it no longer exists in the cluster. */
  noteEnd(object: ObjectName & { uid: string }): void;
  stop(): Promise<void>;
};

/** The metadata that every object of a cluster has. The namespace of a Namespace is the empty string. */
export const listedObject = z.looseObject({
  metadata: z.looseObject({
    name: z.string(),
    namespace: z.string().default(""),
    uid: z.string(),
    resourceVersion: z.string().regex(/^\d+$/),
    deletionTimestamp: z.union([z.string(), z.date().transform((date) => date.toISOString())]).optional(),
    finalizers: z.array(z.string()).default([]),
  }),
});
export type ListedObject = z.infer<typeof listedObject>;

type Options<T> = {
  collection: Collection;
  /** Converts an object to its form in the copy. The result must be immutable. */
  read(object: ListedObject): T;
  /** Called after each change of the copy. Must return immediately and not throw. */
  onChange(object: ObjectName): void;
  clock: Clock;
  log: Logger;
  random?: () => number;
  /** For tests: the silence after which a watch reopens, and the time between lists, in milliseconds. */
  idleMs?: number;
  relistMs?: number;
};

const PAGE = 500;
const WATCH_SECONDS = { least: 300, most: 600 };
const IDLE_MS = 90_000;
/** A watch that ends within this time without any event counts as failed. */
const SHORT_MS = 1000;
/** The time between two lists. Lists find changes that a watch missed. */
const RELIST_MS = 30 * 60_000;
const RETRIES: Backoff = { base: 400, cap: 30_000, jitter: [0.5, 1] };

const listPage = z.object({
  metadata: z.object({
    resourceVersion: z.string().regex(/^\d+$/),
    continue: z.string().optional(),
    /** The typed clients use this name for `continue`. */
    _continue: z.string().optional(),
  }),
  items: z.array(listedObject).nullish(),
});
const watchEvent = z.object({
  type: z.enum(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]),
  object: z.unknown(),
});
const bookmark = z.object({ metadata: z.object({ resourceVersion: z.string().regex(/^\d+$/) }) });

/**
 * Creates a reflector that lists a kind in pages and then watches it. Retries failures with growing delays.
 * Lists again every 30 minutes, and when the cluster no longer knows the watch's version.
 */
export function createReflector<T>(options: Options<T>): Reflector<T> {
  const { collection, read, onChange, clock, log, random = Math.random } = options;
  const { resource } = collection;
  const { idleMs = IDLE_MS, relistMs = RELIST_MS } = options;
  const copy = createCopy<T>(onChange);
  const stopping = new AbortController();
  const started = Promise.withResolvers<void>();
  // Prevents an unhandled rejection: a stop may reject this promise while nobody awaits it.
  started.promise.catch(() => undefined);
  let running = Promise.resolve();
  let failures = 0;
  let isListDue = true;
  /** False once a paged list took so long that the cluster discarded the list's version. */
  let inPages = true;
  let listedAt = 0;
  const state: WatchState = { resource, isSynced: false, activeAt: performance.now(), lists: 0, failures: 0 };

  function entryOf(object: ListedObject): Entry<T> {
    const { namespace, name, uid, resourceVersion } = object.metadata;
    return { namespace, name, uid, version: BigInt(resourceVersion), value: read(object) };
  }

  async function list(): Promise<void> {
    const entries: Entry<T>[] = [];
    let token: string | undefined;
    let version: string;
    do {
      const page: z.infer<typeof listPage> = listPage.parse(
        await collection.list(
          { ...(inPages && { limit: PAGE }), ...(token !== undefined && { continue: token }) },
          stopping.signal,
        ),
      );
      version = page.metadata.resourceVersion;
      entries.push(...(page.items ?? []).map(entryOf));
      token = page.metadata.continue || page.metadata._continue || undefined;
    } while (token !== undefined);
    copy.replace(entries, BigInt(version));
    inPages = true;
    isListDue = false;
    listedAt = clock.now().getTime();
    state.activeAt = performance.now();
    state.lists += 1;
    state.isSynced = true;
    started.resolve();
  }

  function applyEvent(raw: unknown): void {
    const { type, object } = watchEvent.parse(raw);
    if (type === "ERROR") throw errorOfAnswer({ verb: "watch", resource }, { body: object });
    failures = 0;
    if (type === "BOOKMARK") {
      copy.advance(BigInt(bookmark.parse(object).metadata.resourceVersion));
      return;
    }
    const entry = entryOf(listedObject.parse(object));
    if (type === "DELETED") {
      copy.remove(entry);
    } else {
      copy.put(entry);
    }
    copy.advance(entry.version);
  }

  async function watch(): Promise<void> {
    const quiet = new AbortController();
    const { least, most } = WATCH_SECONDS;
    const begun = clock.now().getTime();
    let timer = setTimeout(() => quiet.abort(), idleMs);
    let count = 0;
    try {
      await collection.watch(
        {
          allowWatchBookmarks: "true",
          resourceVersion: String(copy.version()),
          timeoutSeconds: String(Math.round(least + random() * (most - least))),
        },
        {
          signal: AbortSignal.any([stopping.signal, quiet.signal]),
          onEvent(event) {
            clearTimeout(timer);
            timer = setTimeout(() => quiet.abort(), idleMs);
            applyEvent(event);
            state.activeAt = performance.now();
            count += 1;
          },
        },
      );
    } catch (error) {
      if (!quiet.signal.aborted) throw error;
    } finally {
      clearTimeout(timer);
    }
    if (count === 0 && clock.now().getTime() - begun < SHORT_MS) {
      throw new ClusterError({ verb: "watch", resource, reason: "EndedEarly" });
    }
    failures = 0;
    isListDue = clock.now().getTime() - listedAt >= relistMs;
  }

  function fail(error: unknown): number {
    const known =
      error instanceof z.ZodError
        ? new ClusterError({ verb: isListDue ? "list" : "watch", resource, reason: "BadAnswer" })
        : errorOfTransport({ verb: isListDue ? "list" : "watch", resource }, error);
    if (isStatus(known, 410)) {
      inPages = !isListDue;
      isListDue = true;
    }
    failures += 1;
    state.failures += 1;
    log.warn({ failures, err: known }, "the copy of the cluster is not up to date");
    return Math.max(backoff(RETRIES, failures, random), known.retryAfterMs ?? 0);
  }

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        if (isListDue) await list();
        await watch();
      } catch (error) {
        if (!stopping.signal.aborted) await pause(fail(error), stopping.signal);
      }
    }
  }

  return {
    start() {
      running = run();
      return started.promise;
    },
    get: copy.get,
    values: copy.values,
    state: () => state,
    note(answer) {
      const object = listedObject.parse(answer);
      const { deletionTimestamp, finalizers } = object.metadata;
      if (deletionTimestamp !== undefined && finalizers.length === 0) {
        copy.remove(object.metadata);
      } else {
        copy.put(entryOf(object));
      }
    },
    noteEnd: copy.remove,
    async stop() {
      stopping.abort();
      await running;
      started.reject(new Error("the copy of the cluster was stopped before it was complete"));
    },
  };
}

/** Combines several copies' states into one: the worst state and the sums of the counts. */
export function togetherState(states: readonly WatchState[]): WatchState {
  return {
    resource: states[0]?.resource ?? "",
    isSynced: states.every(({ isSynced }) => isSynced),
    activeAt: Math.min(...states.map(({ activeAt }) => activeAt)),
    lists: states.reduce((total, { lists }) => total + lists, 0),
    failures: states.reduce((total, { failures }) => total + failures, 0),
  };
}
