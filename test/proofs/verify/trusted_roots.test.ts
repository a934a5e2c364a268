import { randomBytes } from "node:crypto";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { createRootFinder, type FindRoot } from "../../../src/proofs/verify/trusted_roots.ts";
import { decisionWorld } from "../decision_world.ts";
import { insertRecords } from "../records.ts";

const world = decisionWorld();
let findRoot: FindRoot;
let asked: number;

beforeAll(() => {
  world.db.on("query", () => {
    asked += 1;
  });
});

beforeEach(() => {
  findRoot = createRootFinder(world.db);
  asked = 0;
});

test("a found root is asked for once, however many ask at once and later", async () => {
  const { humanId, accountId } = await insertRecords(world.db, 0);
  asked = 0;
  const found = await Promise.all(Array.from({ length: 8 }, () => findRoot(humanId)));
  found.push(await findRoot(humanId));
  expect(found.map((root) => root?.accountId)).toEqual(Array(9).fill(accountId));
  expect(asked).toBe(1);
});

test("an unknown root is found as soon as an account has it", async () => {
  const humanId = randomBytes(16).toString("hex");
  expect(await findRoot(humanId)).toBeUndefined();
  const { accountId } = await insertRecords(world.db, 0, { humanId });
  expect((await findRoot(humanId))?.accountId).toBe(accountId);
});

test.each(["", "a".repeat(31), "a".repeat(33), "A".repeat(32), `${"a".repeat(31)}\n`, `${"a".repeat(31)}\0`])(
  "%j is no key id: nobody's, and not asked for",
  async (text) => {
    expect(await findRoot(text)).toBeUndefined();
    expect(asked).toBe(0);
  },
);
