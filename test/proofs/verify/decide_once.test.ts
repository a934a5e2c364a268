import { hash } from "node:crypto";
import { describe, expect, test, vi } from "vitest";
import { ApiError } from "../../../src/errors.ts";
import type { Decided } from "../../../src/proofs/decide/decided.ts";
import { type BoundCall, decideOnce } from "../../../src/proofs/verify/decide_once.ts";
import { bundleHash, type ProofBundle } from "../../../src/protocol/documents/proof_bundle.ts";
import { canonicalJson } from "../../../src/protocol/encoding/canonical.ts";
import { bytes32, prove } from "../../support/chains.ts";
import { codeOf } from "../verify_world.ts";

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

  test("is answered again to the very proof, and not where it was recorded under another hash of it", async () => {
    const bundle = await prove([{}], { session_context: bytes32(1) });
    const recordedUnder = (bundle_hash: string) => async () => ({
      operation_hash: call.operationHash,
      error_reason: null,
      decision: "allow" as const,
      decision_reason: "authorized",
      receipt: JSON.stringify({ bundle_hash }),
      receipt_hash: Buffer.alloc(32),
    });
    const ended = () => Promise.reject(new ApiError("invalid_challenge"));
    const own = Buffer.from(bundleHash(bundle)).toString("hex");
    const bound = { read: async () => bundle, decide: ended };
    expect(await decideOnce(recordedUnder(own), call, bound)).toMatchObject({ replayed: true });
    const withoutAbsentFields = hash("sha256", canonicalJson(bundle));
    const again = decideOnce(recordedUnder(withoutAbsentFields), call, bound);
    expect(await codeOf(again)).toBe("invalid_challenge");
  });

  test("is not asked about again after any other fault", async () => {
    const decide = vi.fn(() => Promise.reject(Object.assign(new Error("gone"), { code: "57P01" })));
    await expect(decideOnce(nothingRecorded, call, { read, decide })).rejects.toThrow("gone");
    expect(decide).toHaveBeenCalledOnce();
  });
});
