import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import type { Database } from "../../../src/db/database.ts";
import { createChallengeKeys } from "../../../src/proofs/present/challenge.ts";
import { createSecretBox } from "../../../src/secret_box.ts";
import { decisionWorld } from "../decision_world.ts";

const world = decisionWorld();
const now = new Date("2026-05-01T00:00:00.000Z");

test("replicas that start a new day at the same time issue challenges with the same key and keep that key", async () => {
  const secretBox = createSecretBox(randomBytes(32));
  const replica = () => createChallengeKeys({ db: world.db, secretBox });
  const replicas = Array.from({ length: 4 }, replica);
  for (let day = 20_000; day < 20_025; day += 1) {
    const made = await Promise.all(replicas.map((keys) => keys.forIssuing(day, now)));
    const known = await replica().find(day);
    expect(made.map(({ secret }) => secret)).toEqual(replicas.map(() => known?.secret));
  }
});

/** A database whose second lookup of a key has read its row when `read` resolves, and ends on `release`. */
function withSlowLookup() {
  const read = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  let lookups = 0;
  const apply = (_: unknown, __: unknown, [table]: [string]) => {
    const query = world.db(table);
    const first: () => Promise<unknown> = query.first.bind(query);
    const slowFirst = async () => {
      lookups += 1;
      const isSlow = lookups === 2;
      const row = await first();
      if (isSlow) read.resolve();
      if (isSlow) await gate.promise;
      return row;
    };
    return Object.assign(query, { first: slowFirst });
  };
  const db: Database = new Proxy<Database>(world.db, { apply });
  return { db, read: read.promise, release: gate.resolve };
}

test("a call that stored a new day's key uses it although an older lookup is still under way", async () => {
  const secretBox = createSecretBox(randomBytes(32));
  const { db, read, release } = withSlowLookup();
  const keys = createChallengeKeys({ db, secretBox });
  const day = 21_000;
  const insert = await world.hold("lock table challenge_keys in share mode", []);
  const issuing = keys.forIssuing(day, now);
  await world.untilBlocked();
  const early = keys.find(day);
  await read;
  await insert.commit();
  const replica = createChallengeKeys({ db: world.db, secretBox });
  await expect.poll(() => replica.find(day)).toBeDefined();
  const late = keys.find(day);
  release();
  const stored = await replica.find(day);
  expect(await Promise.all([issuing, early, late])).toEqual([stored, stored, stored]);
});
