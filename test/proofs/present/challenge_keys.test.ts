import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
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
