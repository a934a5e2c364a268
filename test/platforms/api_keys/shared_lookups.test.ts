import { expect, test } from "vitest";
import { newApiKey } from "../../../src/platforms/api_keys/api_key.ts";
import { rotate, useFinderWorld } from "./finder_world.ts";

const world = useFinderWorld();
const { finderThatForgot, newPlatform } = world;

test("concurrent calls with the same key share one query", async () => {
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

test("a call does not join a lookup that began before a known key change", async () => {
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

test("a call repeats a lookup that it joined if a key change arrives meanwhile", async () => {
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

test("calls that joined a failed lookup repeat the lookup once, together", async () => {
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

test("a call does not join a lookup that has been running for a quarter of a second", async () => {
  const { apiKey } = await newPlatform();
  const { finder, held } = await finderThatForgot(apiKey);
  held.hold();
  const before = held.lookups();
  const calls = [finder.find(apiKey)];
  world.api.clock.advance(0.249);
  calls.push(finder.find(apiKey));
  expect(held.lookups()).toBe(before + 1);
  world.api.clock.advance(0.001);
  calls.push(finder.find(apiKey));
  expect(held.lookups()).toBe(before + 2);
  held.release();
  await Promise.all(calls);
});
