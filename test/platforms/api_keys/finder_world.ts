import { afterAll, afterEach, beforeAll, expect } from "vitest";
import type { Database } from "../../../src/db/database.ts";
import { type ApiKeyFinder, createApiKeyFinder } from "../../../src/platforms/api_keys/api_key_finder.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { registerPlatform, type TestPlatform } from "../../support/platform_world.ts";

type Owner = Awaited<ReturnType<TestApi["person"]>>["client"];
type OwnedPlatform = TestPlatform & { accountId: string; owner: Owner };

type CountingDatabase = { db: Database; lookups: () => number };

/** A database that can hold back a key lookup: it reads immediately, but returns only when released. */
type HoldingDatabase = CountingDatabase & {
  hold(): void;
  /** Resolves when a held lookup has read its row. */
  reached(): Promise<void>;
  /** Releases held lookups: they return their result, or fail with `error`. */
  release(error?: Error): void;
};

/** The API for a test file, and key finders. Each finder is closed after its test. */
export type FinderWorld = {
  readonly api: TestApi;
  /** Faults that the finders reported about their connections. */
  readonly faults: Error[];
  createFinder(db?: Database, url?: string): ApiKeyFinder;
  /** Creates a finder that listens and has cached `key`. */
  warmFinder(key: string): Promise<{ finder: ApiKeyFinder; lookups: () => number }>;
  /** Creates a finder that listens, whose cache entry of `key` has expired. */
  finderThatForgot(key: string): Promise<{ finder: ApiKeyFinder; held: HoldingDatabase }>;
  newPlatform(): Promise<OwnedPlatform>;
};

export function useFinderWorld(): FinderWorld {
  let api: TestApi;
  const finders: ApiKeyFinder[] = [];
  const faults: Error[] = [];
  beforeAll(async () => {
    api = await startApi();
  });
  afterEach(async () => {
    await Promise.all(finders.splice(0).map((finder) => finder.close()));
  });
  afterAll(() => api?.stop());

  function createFinder(db: Database = api.db, url: string = api.databaseUrl): ApiKeyFinder {
    const finder = createApiKeyFinder({ db, clock: api.clock, url, onError: (error) => faults.push(error) });
    finders.push(finder);
    return finder;
  }

  return {
    get api() {
      return api;
    },
    faults,
    createFinder,
    async warmFinder(key) {
      const { db, lookups } = countLookups(api.db);
      const finder = createFinder(db);
      await remembers(finder, lookups, key);
      return { finder, lookups };
    },
    async finderThatForgot(key) {
      const held = holdLookups(api.db);
      const finder = createFinder(held.db);
      await remembers(finder, held.lookups, key);
      api.clock.advance(6);
      return { finder, held };
    },
    async newPlatform() {
      const person = await api.person();
      const platform = await registerPlatform(person);
      return { ...platform, accountId: person.accountId, owner: person.client };
    },
  };
}

export async function remembers(finder: ApiKeyFinder, lookups: () => number, key: string): Promise<void> {
  await expect.poll(() => remembersNow(finder, lookups, key), { timeout: 20_000, interval: 20 }).toBe(true);
}

export async function remembersNow(
  finder: ApiKeyFinder,
  lookups: () => number,
  key: string,
): Promise<boolean> {
  const before = lookups();
  await finder.find(key);
  return lookups() === before;
}

export async function rotate(platform: OwnedPlatform, graceSeconds: number): Promise<string> {
  const path = `/v1/service/connections/${platform.connectionId}/rotate-key`;
  const answer = await platform.owner.post(path, { grace_seconds: graceSeconds });
  expect(answer.status).toBe(200);
  return String(answer.body.api_key);
}

const KEYS = "api_keys as k";

export function countLookups(real: Database): CountingDatabase {
  let lookups = 0;
  const db = new Proxy(real, {
    apply(target, thisArgument, parameters: [string]) {
      if (parameters[0] === KEYS) lookups += 1;
      return Reflect.apply(target, thisArgument, parameters);
    },
  });
  return { db, lookups: () => lookups };
}

function holdLookups(real: Database): HoldingDatabase {
  const { db: counted, lookups } = countLookups(real);
  let gate: PromiseWithResolvers<void> | undefined;
  let reached = Promise.withResolvers<void>();
  const db = new Proxy(counted, {
    apply(target, thisArgument, parameters: [string]) {
      const query = Reflect.apply(target, thisArgument, parameters);
      if (parameters[0] !== KEYS || gate === undefined) return query;
      const first = query.first.bind(query);
      const { promise } = gate;
      query.first = async (...columns: string[]) => {
        const row = await first(...columns);
        reached.resolve();
        await promise;
        return row;
      };
      return query;
    },
  });
  return {
    db,
    lookups,
    hold() {
      gate = Promise.withResolvers();
      reached = Promise.withResolvers();
    },
    reached: () => reached.promise,
    release(error) {
      if (error === undefined) gate?.resolve();
      else gate?.reject(error);
      gate = undefined;
    },
  };
}
