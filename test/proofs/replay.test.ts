import { describe, expect, test, vi } from "vitest";
import type { Decided } from "../../src/proofs/decided.ts";
import { type BoundCall, decideOnce } from "../../src/proofs/replay.ts";
import type { ProofBundle } from "../../src/protocol/proof_bundle.ts";
import { codeOf } from "./verify_world.ts";

const call: BoundCall = {
  caller: { accountId: "a", connectionId: "c", keyPrefix: "k", verifierId: "v", registryAnswers: false },
  invocationId: "i",
  operationHash: Buffer.alloc(32),
};
const read = async () => ({}) as ProofBundle;
const decision = { decision: "allow", replayed: false } as Decided;
const nothingRecorded = async () => undefined;

describe("an operation that others decide on at the same moment", () => {
  test.each([1, 2])("and %i times in vain is asked about again", async (times) => {
    let taken = times;
    const decide = async () => {
      taken -= 1;
      return taken < 0 ? decision : undefined;
    };
    expect(await decideOnce(nothingRecorded, call, { read, decide })).toBe(decision);
  });

  test("and in vain each time is unavailable in the end", async () => {
    const decide = vi.fn(async () => undefined);
    expect(await codeOf(decideOnce(nothingRecorded, call, { read, decide }))).toBe("unavailable");
    expect(decide).toHaveBeenCalledTimes(3);
  });

  test("is not asked about again after any other fault", async () => {
    const decide = vi.fn(() => Promise.reject(Object.assign(new Error("gone"), { code: "57P01" })));
    await expect(decideOnce(nothingRecorded, call, { read, decide })).rejects.toThrow("gone");
    expect(decide).toHaveBeenCalledOnce();
  });
});
