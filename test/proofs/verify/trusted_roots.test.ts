import { randomBytes } from "node:crypto";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { createRootFinder, type FindRoot } from "../../../src/proofs/verify/verdict.ts";
import type { ProofBundle } from "../../../src/protocol/documents/proof_bundle.ts";
import type { HybridPublicKey } from "../../../src/protocol/keys/hybrid.ts";
import { decisionWorld } from "../decision_world.ts";
import { insertRecords } from "../records.ts";

const world = decisionWorld();
/** The root key of `insertRecords`. */
const ROOT_KEY = { ed25519: "", ml_dsa_65: "" };
let findRoot: (humanId: string, key?: HybridPublicKey) => ReturnType<FindRoot>;
let asked: number;

beforeAll(() => {
  world.db.on("query", () => {
    asked += 1;
  });
});

beforeEach(() => {
  const find = createRootFinder(world.db);
  findRoot = (issuer_id, issuer_pub_key = ROOT_KEY) =>
    find({ delegations: [{ issuer_id, issuer_pub_key }] } as ProofBundle);
  asked = 0;
});

test("a root that was found is read from the database once, however many concurrent and later lookups there are", async () => {
  const { humanId, accountId } = await insertRecords(world.db, 0);
  asked = 0;
  const found = await Promise.all(Array.from({ length: 8 }, () => findRoot(humanId)));
  found.push(await findRoot(humanId));
  expect(found.map((root) => root?.accountId)).toEqual(Array(9).fill(accountId));
  expect(asked).toBe(1);
});

test("a lookup does not find a root if the chain contains the root's id with a different key", async () => {
  const { humanId } = await insertRecords(world.db, 0);
  expect(await findRoot(humanId, { ...ROOT_KEY, ml_dsa_65: "another" })).toBeUndefined();
});

test("a lookup finds an unknown root as soon as an account has its key", async () => {
  const humanId = randomBytes(16).toString("hex");
  expect(await findRoot(humanId)).toBeUndefined();
  const { accountId } = await insertRecords(world.db, 0, { humanId });
  expect((await findRoot(humanId))?.accountId).toBe(accountId);
});

test.each(["", "a".repeat(31), "a".repeat(33), "A".repeat(32), `${"a".repeat(31)}\n`, `${"a".repeat(31)}\0`])(
  "%j is not a key id, so it has no root and is not looked up",
  async (text) => {
    expect(await findRoot(text)).toBeUndefined();
    expect(asked).toBe(0);
  },
);
