import { hash } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { DecisionOutcome } from "../../../src/proofs/decide/decision.ts";
import type { DecisionItem } from "../../../src/proofs/decide/decision_item.ts";
import { contextOf, type Operation } from "../../../src/proofs/operation.ts";
import { readVerifyCall } from "../../../src/proofs/verify/call.ts";
import { verifyProof } from "../../../src/proofs/verify/verify_proof.ts";
import { bundleHash } from "../../../src/protocol/documents/proof_bundle.ts";
import { canonicalJson } from "../../../src/protocol/encoding/canonical.ts";
import { BOUND_SCOPE, operationOf } from "../bound_operations.ts";
import { callerOf, codeOf, now, verifyWorld } from "../verify_world.ts";

const service = verifyWorld();

async function boundCall() {
  const shop = await service.account();
  const parties = { platform: shop, person: shop, agentId: shop.agentId };
  const operation = operationOf(parties) as Operation;
  const bundle = await shop.prove({ now, sessionContext: contextOf(operation, BOUND_SCOPE) });
  const body = { proof_bundle: bundle, required_scope: BOUND_SCOPE, operation };
  return { bundle, call: readVerifyCall(callerOf(shop), Buffer.from(JSON.stringify(body)), undefined) };
}

function decidingAfter(times: number, fail: () => Promise<DecisionOutcome>) {
  const deciding = {
    tries: 0,
    decide: async (item: DecisionItem) => {
      deciding.tries += 1;
      return deciding.tries <= times ? fail() : service.deps.decide(item);
    },
  };
  return deciding;
}

const taken = async () => ({ kind: "invocation_taken" }) as const;
const collided = () => Promise.reject(Object.assign(new Error("duplicate key"), { code: "23505" }));

describe("verifyProof, if other calls decide on the same operation,", () => {
  test.each([
    [1, taken],
    [2, taken],
    [2, collided],
  ])("tries again after %i failed attempts", async (times, fail) => {
    const { call } = await boundCall();
    const { decide } = decidingAfter(times, fail);
    const decided = await verifyProof({ ...service.deps, decide }, call);
    expect(decided).toMatchObject({ decision: "allow", replayed: false });
  });

  test("throws unavailable after three failed attempts", async () => {
    const { call } = await boundCall();
    const deciding = decidingAfter(Number.POSITIVE_INFINITY, taken);
    expect(await codeOf(verifyProof({ ...service.deps, decide: deciding.decide }, call))).toBe("unavailable");
    expect(deciding.tries).toBe(3);
  });

  test("returns the decision for the same proof, but not if the recorded bundle hash differs", async () => {
    const { bundle, call } = await boundCall();
    const decided = await verifyProof(service.deps, call);
    expect(decided.receipt.bundle_hash).toBe(Buffer.from(bundleHash(bundle)).toString("hex"));
    expect(await verifyProof(service.deps, call)).toMatchObject({ replayed: true, decision: "allow" });
    const { findRecorded } = service.deps;
    const spent = async () => ({ kind: "challenge_spent" }) as const;
    const recordedUnder = (bundle_hash: string) => ({
      ...service.deps,
      decide: spent,
      findRecorded: async (...asked: Parameters<typeof findRecorded>) => {
        const recorded = await findRecorded(...asked);
        return recorded && { ...recorded, receipt: JSON.stringify({ bundle_hash }) };
      },
    });
    const own = decided.receipt.bundle_hash;
    expect(await verifyProof(recordedUnder(own), call)).toMatchObject({ replayed: true });
    const withoutAbsentFields = hash("sha256", canonicalJson(bundle));
    expect(await codeOf(verifyProof(recordedUnder(withoutAbsentFields), call))).toBe("invalid_challenge");
  });

  test("does not try again after any other error", async () => {
    const { call } = await boundCall();
    const gone = () => Promise.reject(Object.assign(new Error("gone"), { code: "57P01" }));
    const deciding = decidingAfter(1, gone);
    const asked = verifyProof({ ...service.deps, decide: deciding.decide }, call);
    await expect(asked).rejects.toThrow("gone");
    expect(deciding.tries).toBe(1);
  });
});
