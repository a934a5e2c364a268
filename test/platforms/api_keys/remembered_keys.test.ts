import { setTimeout as sleep } from "node:timers/promises";
import { Client, escapeIdentifier } from "pg";
import { expect, test } from "vitest";
import { newApiKey } from "../../../src/platforms/api_keys/api_key.ts";
import type { ApiKeyFinder } from "../../../src/platforms/api_keys/api_key_finder.ts";
import { runPart } from "../../support/run_parts.ts";
import { remembers, remembersNow, rotate, useFinderWorld } from "./finder_world.ts";

const world = useFinderWorld();
const { createFinder, warmFinder, finderThatForgot, newPlatform, faults } = world;

test("the key cache queries the database once within 3 seconds, and again after 5 seconds", async () => {
  const platform = await newPlatform();
  const { finder, lookups } = await warmFinder(platform.apiKey);
  world.api.clock.advance(6);
  await finder.find(platform.apiKey);
  const before = lookups();
  world.api.clock.advance(2.999);
  await finder.find(platform.apiKey);
  expect(lookups()).toBe(before);
  world.api.clock.advance(2.001);
  await finder.find(platform.apiKey);
  expect(lookups()).toBe(before + 1);
});

test("the key cache refreshes a key in use before its entry expires, so that no call waits", async () => {
  const { apiKey } = await newPlatform();
  const { finder, held } = await finderThatForgot(apiKey);
  await finder.find(apiKey);
  const before = held.lookups();
  held.hold();
  world.api.clock.advance(3);
  expect(await finder.find(apiKey)).toBeDefined();
  expect(await finder.find(apiKey)).toBeDefined();
  await held.reached();
  held.release();
  world.api.clock.advance(2.5);
  await expect.poll(() => remembersNow(finder, held.lookups, apiKey)).toBe(true);
  expect(held.lookups()).toBe(before + 1);
});

test("the key cache keeps an entry until it expires if a refresh fails, and never caches the failure", async () => {
  const { apiKey } = await newPlatform();
  const { finder, held } = await finderThatForgot(apiKey);
  await finder.find(apiKey);
  held.hold();
  world.api.clock.advance(4.9);
  expect(await finder.find(apiKey)).toBeDefined();
  await held.reached();
  held.release(new Error("the connection is lost"));
  await sleep(10);
  const before = held.lookups();
  world.api.clock.advance(0.1);
  expect(await finder.find(apiKey)).toBeDefined();
  expect(held.lookups()).toBe(before + 1);
  expect(await remembersNow(finder, held.lookups, apiKey)).toBe(true);
});

test("the key cache also compares the secret of a cached key", async () => {
  const platform = await newPlatform();
  const { finder } = await warmFinder(platform.apiKey);
  const other = newApiKey().apiKey;
  const forged = `${platform.apiKey.slice(0, 13)}${other.slice(13)}`;
  expect(await finder.find(forged)).toBeUndefined();
  expect(await finder.find(platform.apiKey)).toBeDefined();
});

test("the key cache drops a key as soon as another process retires it", async () => {
  const platform = await newPlatform();
  const { finder } = await warmFinder(platform.apiKey);
  await rotate(platform, 0);
  await expect.poll(() => finder.find(platform.apiKey), { timeout: 4_000, interval: 5 }).toBeUndefined();
});

test("the key cache refuses a cached key once the key's grace period has ended", async () => {
  const platform = await newPlatform();
  await rotate(platform, 2);
  const { finder } = await warmFinder(platform.apiKey);
  world.api.clock.advance(2);
  expect(await finder.find(platform.apiKey)).toBeUndefined();
});

test("the key cache does not store a result that was read before a change arrived", async () => {
  const [platform, later] = [await newPlatform(), await newPlatform()];
  const { finder, held } = await finderThatForgot(platform.apiKey);
  await finder.find(later.apiKey);
  held.hold();
  const slow = finder.find(platform.apiKey);
  await held.reached();
  await rotate(platform, 0);
  await rotate(later, 0);
  await expect.poll(() => looksUp(finder, held.lookups, later.apiKey)).toBe(true);
  held.release();
  await slow;
  expect(await finder.find(platform.apiKey)).toBeUndefined();
});

test("the key cache stores nothing while it is not listening, and drops all entries when it stops listening", async () => {
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

test("the key finder closes even while it cannot reach the database", async () => {
  const finder = createFinder(world.api.db, "postgres://nobody@127.0.0.1:1/none");
  await sleep(50);
  await finder.close();
});

/** Returns whether `find` queries the database, without waiting for the query's result. */
function looksUp(finder: ApiKeyFinder, lookups: () => number, key: string): boolean {
  const before = lookups();
  void finder.find(key);
  return lookups() > before;
}

/** Allows or forbids new connections to the database. Existing connections continue. */
async function allowConnections(allowed: boolean): Promise<void> {
  const client = new Client({ connectionString: runPart("postgresUrl") });
  await client.connect();
  const name = escapeIdentifier(new URL(world.api.databaseUrl).pathname.slice(1));
  await client.query(`alter database ${name} with allow_connections ${allowed}`);
  await client.end();
}

async function endListeners(): Promise<void> {
  await world.api.db.raw(
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'deputize-api-keys' and datname = current_database()",
  );
}
