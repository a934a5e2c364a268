import { expandScopes } from "../../src/protocol/documents/scopes.ts";
import { type JsonObject, plainJson } from "../../src/protocol/encoding/json.ts";
import { importSeeds, keyId, publicKeyOf } from "../../src/protocol/keys/hybrid.ts";
import type { VectorResult } from "./run.ts";
import { checkSessionToken } from "./session_token.ts";
import {
  checkKeyRotation,
  checkRevocationList,
  checkRevocationPush,
  checkTransactionReceipt,
  checkVerificationReceipt,
  checkWitnessEntry,
} from "./statements.ts";
import { Expectations, type Vector, vectorSchema } from "./vector.ts";
import { checkVerify } from "./verify.ts";

type CheckKind = (vector: Vector, document: JsonObject, expect: Expectations) => void | Promise<void>;

const KINDS: Record<string, CheckKind> = {
  verify: checkVerify,
  scope: ({ scope_input, expected }, _, expect) =>
    expect.equal("expanded scopes", expected.expanded_scopes, expandScopes(scope_input ?? [])),
  revocation: checkRevocationList,
  revocation_push: checkRevocationPush,
  witness_entry: checkWitnessEntry,
  key_rotation: checkKeyRotation,
  session_token: checkSessionToken,
  transaction_receipt: checkTransactionReceipt,
  verification_receipt: checkVerificationReceipt,
};

/** Checks one published vector: its keys, its signed bytes, and the result of verifying it. */
export async function checkVector(document: JsonObject): Promise<VectorResult> {
  const vector = vectorSchema.parse(plainJson(document));
  const expect = new Expectations();
  for (const { role, public_key, id, ...seeds } of vector.entities) {
    expect.equal(`${role}: id`, id, keyId(public_key));
    expect.equal(
      `${role}: public key`,
      public_key,
      publicKeyOf(
        importSeeds({
          ed25519: Buffer.from(seeds.ed25519_seed_hex, "hex"),
          ml_dsa_65: Buffer.from(seeds.ml_dsa_65_seed_hex, "hex"),
        }),
      ),
    );
  }
  const check = KINDS[vector.kind];
  if (check === undefined) expect.equal("kind", `one of ${Object.keys(KINDS).join(", ")}`, vector.kind);
  await check?.(vector, document, expect);
  return { kind: vector.kind, name: vector.name, mismatches: expect.mismatches };
}
