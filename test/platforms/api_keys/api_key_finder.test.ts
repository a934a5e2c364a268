import { expect, test } from "vitest";
import { addSeconds } from "../../../src/clock.ts";
import { newApiKey } from "../../../src/platforms/api_keys/api_key.ts";
import { countLookups, rotate, useFinderWorld } from "./finder_world.ts";

const world = useFinderWorld();
const { createFinder, newPlatform } = world;

test("the key finder returns the connection and account of a key", async () => {
  const platform = await newPlatform();
  expect(await createFinder().find(platform.apiKey)).toEqual({
    accountId: platform.accountId,
    principalAccountId: platform.accountId,
    isCustomer: false,
    connectionId: platform.connectionId,
    keyPrefix: platform.apiKey.slice(0, 12),
    verifierId: platform.connectionId,
    registryAnswers: false,
    role: "full" as const,
    agentId: null,
    explanationValues: "rounded" as const,
  });
});

test("the key finder returns undefined for an unknown key, and for a known prefix with a different secret", async () => {
  const { apiKey, connectionId } = await newPlatform();
  const stranger = newApiKey();
  expect(await createFinder().find(stranger.apiKey)).toBeUndefined();
  await world.api
    .db("api_keys")
    .where({ connection_id: connectionId })
    .update({ key_prefix: stranger.prefix, key_hash: newApiKey().hash });
  expect(await createFinder().find(stranger.apiKey)).toBeUndefined();
  expect(await createFinder().find(apiKey)).toBeUndefined();
});

test("the key finder does not query the database for text with a wrong checksum", async () => {
  const { db, lookups } = countLookups(world.api.db);
  const { apiKey } = newApiKey();
  const typo = `${apiKey.slice(0, 20)}${apiKey[20] === "a" ? "b" : "a"}${apiKey.slice(21)}`;
  for (const text of ["", "Bearer x", typo, "dpz_'; drop table api_keys; --"]) {
    expect(await createFinder(db).find(text)).toBeUndefined();
  }
  expect(lookups()).toBe(0);
});

test("the key finder accepts a rotated key until the key's grace period ends", async () => {
  const platform = await newPlatform();
  const finder = createFinder();
  const next = await rotate(platform, 60);
  world.api.clock.set(new Date(world.api.clock.now().getTime() + 59_999));
  expect(await finder.find(platform.apiKey)).toBeDefined();
  world.api.clock.advance(0.001);
  expect(await finder.find(platform.apiKey)).toBeUndefined();
  expect(await finder.find(next)).toMatchObject({ connectionId: platform.connectionId });
});

test("the key finder immediately refuses a key that was rotated without a grace period", async () => {
  const platform = await newPlatform();
  await rotate(platform, 0);
  expect(await createFinder().find(platform.apiKey)).toBeUndefined();
});

test("the key finder refuses the key of a removed connection, even if the key was never retired", async () => {
  const platform = await newPlatform();
  await world.api
    .db("connections")
    .where({ connection_id: platform.connectionId })
    .update({ removed_at: world.api.clock.now() });
  expect(await createFinder().find(platform.apiKey)).toBeUndefined();
});

test("a key that was given several expiry times expires at the earliest of them", async () => {
  const platform = await newPlatform();
  const second = await rotate(platform, 3_600);
  const third = await rotate(platform, 60);
  const now = world.api.clock.now();
  const rows = await world.api.db("api_keys").where({ connection_id: platform.connectionId });
  const ends = Object.fromEntries(rows.map((row) => [row.key_prefix, row.retires_at]));
  expect(ends).toEqual({
    [platform.apiKey.slice(0, 12)]: addSeconds(now, 60),
    [second.slice(0, 12)]: addSeconds(now, 60),
    [third.slice(0, 12)]: null,
  });
});
