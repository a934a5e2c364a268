import { setTimeout as sleep } from "node:timers/promises";
import { Client, escapeIdentifier } from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from "vitest";
import { addSeconds } from "../../../src/clock.ts";
import type { Database } from "../../../src/db/database.ts";
import { newApiKey } from "../../../src/platforms/api_keys/api_key.ts";
import { type ApiKeyFinder, createApiKeyFinder } from "../../../src/platforms/api_keys/api_key_finder.ts";
import {
  type PlatformApi,
  registerPlatform,
  startPlatformApi,
  type TestPlatform,
} from "../../support/platform_world.ts";

let api: PlatformApi;
const finders: ApiKeyFinder[] = [];
const faults: Error[] = [];

beforeAll(async () => {
  api = await startPlatformApi();
});
afterEach(async () => {
  await Promise.all(finders.splice(0).map((finder) => finder.close()));
});
afterAll(() => api.stop());

/** Counts the look-ups that reach the database. */
function countingDatabase(): { db: Database; lookups: () => number } {
  let lookups = 0;
  const db = new Proxy(api.db, {
    apply(target, thisArgument, [table, ...rest]: [string]) {
      if (table === "api_keys as k") lookups += 1;
      return Reflect.apply(target, thisArgument, [table, ...rest]);
    },
  });
  return { db, lookups: () => lookups };
}

function createFinder(db: Database = api.db, url: string = api.databaseUrl): ApiKeyFinder {
  const finder = createApiKeyFinder({ db, clock: api.clock, url, onError: (error) => faults.push(error) });
  finders.push(finder);
  return finder;
}

/** A finder that listens, with `key` in its memory. */
async function warmFinder(key: string): Promise<{ finder: ApiKeyFinder; lookups: () => number }> {
  const { db, lookups } = countingDatabase();
  const finder = createFinder(db);
  await remembers(finder, lookups, key);
  return { finder, lookups };
}

/** A finder that listens and knew `key`, which it has to read again, with the database that it reads. */
async function finderThatForgot(key: string) {
  const held = holdingDatabase();
  const finder = createFinder(held.db);
  await remembers(finder, held.lookups, key);
  api.clock.advance(6);
  return { finder, held };
}

/** Waits until a look-up is answered from memory. */
async function remembers(finder: ApiKeyFinder, lookups: () => number, key: string): Promise<void> {
  await expect.poll(() => remembersNow(finder, lookups, key), { timeout: 20_000, interval: 20 }).toBe(true);
}

async function remembersNow(finder: ApiKeyFinder, lookups: () => number, key: string): Promise<boolean> {
  const before = lookups();
  await finder.find(key);
  return lookups() === before;
}

async function rotate(platform: TestPlatform, graceSeconds: number, client = owner): Promise<string> {
  const path = `/v1/service/connections/${platform.connectionId}/rotate-key`;
  const answer = await client.post(path, { grace_seconds: graceSeconds });
  expect(answer.status).toBe(200);
  return String(answer.body.api_key);
}

let owner: Awaited<ReturnType<PlatformApi["person"]>>["client"];

async function newPlatform(): Promise<TestPlatform & { accountId: string }> {
  const person = await api.person();
  owner = person.client;
  return { ...(await registerPlatform(person)), accountId: person.accountId };
}

describe("finding the caller behind an API key", () => {
  test("gives its connection and account", async () => {
    const platform = await newPlatform();
    expect(await createFinder().find(platform.apiKey)).toEqual({
      accountId: platform.accountId,
      connectionId: platform.connectionId,
      keyPrefix: platform.apiKey.slice(0, 12),
      verifierId: platform.connectionId,
      registryAnswers: false,
    });
  });

  test("gives nobody for a key that was never issued, and for the right prefix with another secret", async () => {
    const { apiKey, connectionId } = await newPlatform();
    const stranger = newApiKey();
    expect(await createFinder().find(stranger.apiKey)).toBeUndefined();
    await api
      .db("api_keys")
      .where({ connection_id: connectionId })
      .update({ key_prefix: stranger.prefix, key_hash: newApiKey().hash });
    expect(await createFinder().find(stranger.apiKey)).toBeUndefined();
    expect(await createFinder().find(apiKey)).toBeUndefined();
  });

  test("asks the database nothing about text with a wrong checksum", async () => {
    const { db, lookups } = countingDatabase();
    const { apiKey } = newApiKey();
    const typo = `${apiKey.slice(0, 20)}${apiKey[20] === "a" ? "b" : "a"}${apiKey.slice(21)}`;
    for (const text of ["", "Bearer x", typo, "dpz_'; drop table api_keys; --"]) {
      expect(await createFinder(db).find(text)).toBeUndefined();
    }
    expect(lookups()).toBe(0);
  });

  test("accepts a rotated key until the last moment of its grace, and not from the end on", async () => {
    const platform = await newPlatform();
    const finder = createFinder();
    const next = await rotate(platform, 60);
    api.clock.set(new Date(api.clock.now().getTime() + 59_999));
    expect(await finder.find(platform.apiKey)).toBeDefined();
    api.clock.advance(0.001);
    expect(await finder.find(platform.apiKey)).toBeUndefined();
    expect(await finder.find(next)).toMatchObject({ connectionId: platform.connectionId });
  });

  test("immediately refuses a key rotated without grace", async () => {
    const platform = await newPlatform();
    await rotate(platform, 0);
    expect(await createFinder().find(platform.apiKey)).toBeUndefined();
  });

  test("refuses the key of a removed connection, even one that was never retired", async () => {
    const platform = await newPlatform();
    await api
      .db("connections")
      .where({ connection_id: platform.connectionId })
      .update({ removed_at: api.clock.now() });
    expect(await createFinder().find(platform.apiKey)).toBeUndefined();
  });
});

describe("remembering keys", () => {
  test("asks the database once within 3 seconds, and again for a call after 5", async () => {
    const platform = await newPlatform();
    const { finder, lookups } = await warmFinder(platform.apiKey);
    api.clock.advance(6);
    await finder.find(platform.apiKey);
    const before = lookups();
    api.clock.advance(2.999);
    await finder.find(platform.apiKey);
    expect(lookups()).toBe(before);
    api.clock.advance(2.001);
    await finder.find(platform.apiKey);
    expect(lookups()).toBe(before + 1);
  });

  test("reads a key in use again before it is forgotten, and has no call wait for that", async () => {
    const { apiKey } = await newPlatform();
    const { finder, held } = await finderThatForgot(apiKey);
    await finder.find(apiKey);
    const before = held.lookups();
    held.hold();
    api.clock.advance(3);
    expect(await finder.find(apiKey)).toBeDefined();
    expect(await finder.find(apiKey)).toBeDefined();
    await held.reached();
    held.release();
    api.clock.advance(2.5);
    await expect.poll(() => remembersNow(finder, held.lookups, apiKey)).toBe(true);
    expect(held.lookups()).toBe(before + 1);
  });

  test("asks once for calls that come at the same time", async () => {
    const { apiKey } = await newPlatform();
    const { finder, held } = await finderThatForgot(apiKey);
    const before = held.lookups();
    held.hold();
    const calls = Array.from({ length: 100 }, () => finder.find(apiKey));
    const forged = finder.find(`${apiKey.slice(0, 13)}${newApiKey().apiKey.slice(13)}`);
    await held.reached();
    held.release();
    const prefixes = (await Promise.all(calls)).map((caller) => caller?.keyPrefix);
    expect(new Set(prefixes)).toEqual(new Set([apiKey.slice(0, 12)]));
    expect(await forged).toBeUndefined();
    expect(held.lookups()).toBe(before + 1);
  });

  test("a call does not share a look-up that began before a change that was heard", async () => {
    const platform = await newPlatform();
    const { finder, held } = await finderThatForgot(platform.apiKey);
    held.hold();
    const early = finder.find(platform.apiKey);
    await held.reached();
    await rotate(platform, 0);
    finder.forget([]);
    const late = finder.find(platform.apiKey);
    held.release();
    expect(await early).toBeDefined();
    expect(await late).toBeUndefined();
  });

  test("a call looks again when a change was heard while it shared a look-up", async () => {
    const platform = await newPlatform();
    const { finder, held } = await finderThatForgot(platform.apiKey);
    held.hold();
    const early = finder.find(platform.apiKey);
    await held.reached();
    const joined = finder.find(platform.apiKey);
    await rotate(platform, 0);
    finder.forget([]);
    held.release();
    expect(await early).toBeDefined();
    expect(await joined).toBeUndefined();
  });

  test("a call that shared a look-up which failed looks once more, with all others that did", async () => {
    const { apiKey } = await newPlatform();
    const { finder, held } = await finderThatForgot(apiKey);
    const before = held.lookups();
    held.hold();
    const [first, ...joined] = Array.from({ length: 20 }, () => finder.find(apiKey));
    await held.reached();
    held.release(new Error("the connection is lost"));
    await expect(first).rejects.toThrow("the connection is lost");
    const callers = await Promise.all(joined);
    expect(callers.every((caller) => caller?.keyPrefix === apiKey.slice(0, 12))).toBe(true);
    expect(held.lookups()).toBe(before + 2);
  });

  test("a call does not share a look-up that has taken a quarter of a second", async () => {
    const { apiKey } = await newPlatform();
    const { finder, held } = await finderThatForgot(apiKey);
    held.hold();
    const before = held.lookups();
    const calls = [finder.find(apiKey)];
    api.clock.advance(0.249);
    calls.push(finder.find(apiKey));
    expect(held.lookups()).toBe(before + 1);
    api.clock.advance(0.001);
    calls.push(finder.find(apiKey));
    expect(held.lookups()).toBe(before + 2);
    held.release();
    await Promise.all(calls);
  });

  test("a key that cannot be read again is remembered until its end, and a failure never", async () => {
    const { apiKey } = await newPlatform();
    const { finder, held } = await finderThatForgot(apiKey);
    await finder.find(apiKey);
    held.hold();
    api.clock.advance(4.9);
    expect(await finder.find(apiKey)).toBeDefined();
    await held.reached();
    held.release(new Error("the connection is lost"));
    await sleep(10);
    const before = held.lookups();
    api.clock.advance(0.1);
    expect(await finder.find(apiKey)).toBeDefined();
    expect(held.lookups()).toBe(before + 1);
    expect(await remembersNow(finder, held.lookups, apiKey)).toBe(true);
  });

  test("compares the secret also of a remembered key", async () => {
    const platform = await newPlatform();
    const { finder } = await warmFinder(platform.apiKey);
    const other = newApiKey().apiKey;
    const forged = `${platform.apiKey.slice(0, 13)}${other.slice(13)}`;
    expect(await finder.find(forged)).toBeUndefined();
    expect(await finder.find(platform.apiKey)).toBeDefined();
  });

  test("drops a key as soon as another process retires it", async () => {
    const platform = await newPlatform();
    const { finder } = await warmFinder(platform.apiKey);
    await rotate(platform, 0);
    await expect.poll(() => finder.find(platform.apiKey), { timeout: 4_000, interval: 5 }).toBeUndefined();
  });

  test("refuses a remembered key at the end of its grace", async () => {
    const platform = await newPlatform();
    await rotate(platform, 2);
    const { finder } = await warmFinder(platform.apiKey);
    api.clock.advance(2);
    expect(await finder.find(platform.apiKey)).toBeUndefined();
  });

  test("does not remember what was read before a change that was heard meanwhile", async () => {
    const platform = await newPlatform();
    const { finder, held } = await finderThatForgot(platform.apiKey);
    held.hold();
    const slow = finder.find(platform.apiKey);
    await held.reached();
    await rotate(platform, 0);
    await sleep(300);
    held.release();
    await slow;
    expect(await finder.find(platform.apiKey)).toBeUndefined();
  });

  test("remembers nothing while it cannot listen, and forgets all when it no longer can", async () => {
    const platform = await newPlatform();
    const { finder, lookups } = await warmFinder(platform.apiKey);
    await allowConnections(false);
    try {
      await endListeners();
      await expect
        .poll(
          async () => {
            const before = lookups();
            await finder.find(platform.apiKey);
            await finder.find(platform.apiKey);
            return lookups() - before;
          },
          { timeout: 10_000, interval: 20 },
        )
        .toBe(2);
      expect(faults.length).toBeGreaterThan(0);
    } finally {
      await allowConnections(true);
    }
    await remembers(finder, lookups, platform.apiKey);
    await rotate(platform, 0);
    await expect.poll(() => finder.find(platform.apiKey), { timeout: 4_000, interval: 5 }).toBeUndefined();
  });

  test("ends, also while it cannot reach the database", async () => {
    const finder = createFinder(api.db, "postgres://nobody@127.0.0.1:1/none");
    await sleep(50);
    await finder.close();
  });
});

/** Connections that exist go on. */
async function allowConnections(allowed: boolean): Promise<void> {
  const client = new Client({ connectionString: inject("postgresUrl") });
  await client.connect();
  const name = escapeIdentifier(new URL(api.databaseUrl).pathname.slice(1));
  await client.query(`alter database ${name} with allow_connections ${allowed}`);
  await client.end();
}

async function endListeners(): Promise<void> {
  await api.db.raw(
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'deputize-api-keys' and datname = current_database()",
  );
}

/** A database whose key look-ups read immediately and then answer only when released. */
function holdingDatabase() {
  const { db: counted, lookups } = countingDatabase();
  let gate: PromiseWithResolvers<void> | undefined;
  let reached = Promise.withResolvers<void>();
  const db = new Proxy(counted, {
    apply(target, thisArgument, parameters: [string]) {
      const query = Reflect.apply(target, thisArgument, parameters);
      if (parameters[0] !== "api_keys as k" || gate === undefined) return query;
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
    /** Answers, or fails with an error. */
    release(error?: Error) {
      if (error === undefined) gate?.resolve();
      else gate?.reject(error);
      gate = undefined;
    },
  };
}

test("a key's end is the earliest of those it was given", async () => {
  const platform = await newPlatform();
  const second = await rotate(platform, 3_600);
  const third = await rotate(platform, 60);
  const now = api.clock.now();
  const rows = await api.db("api_keys").where({ connection_id: platform.connectionId });
  const ends = Object.fromEntries(rows.map((row) => [row.key_prefix, row.retires_at]));
  expect(ends).toEqual({
    [platform.apiKey.slice(0, 12)]: addSeconds(now, 60),
    [second.slice(0, 12)]: addSeconds(now, 60),
    [third.slice(0, 12)]: null,
  });
});
