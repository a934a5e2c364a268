import { describe, expect, test } from "vitest";
import {
  decodeKeyRotation,
  issueKeyRotation,
  type KeyRotationFields,
  ROTATION_REASONS,
  rotationReasonOf,
  verifyKeyRotation,
} from "../../../src/protocol/statements/key_rotation.ts";
import { encode, NOW, ROOT, tamper, testKey } from "../../support/chains.ts";

const refuses = (code: string) => expect.objectContaining({ code });
const halves = ["ed25519", "ml_dsa_65"] as const;

describe("a key rotation", () => {
  const next = testKey(6);
  const fields: KeyRotationFields = {
    version: 1,
    old_id: ROOT.id,
    old_pub_key: ROOT.publicKey,
    new_id: next.id,
    new_pub_key: next.publicKey,
    rotated_at: NOW,
    reason: "routine",
  };
  const issue = (changes: Partial<KeyRotationFields> = {}) =>
    issueKeyRotation({ ...fields, ...changes }, ROOT.privateKey, next.privateKey);

  test.each(ROTATION_REASONS)("verifies after encoding and decoding with the reason %s", async (reason) => {
    const statement = await issue({ reason });
    expect(decodeKeyRotation(encode(statement))).toEqual(statement);
    expect(await verifyKeyRotation(statement)).toBeUndefined();
  });

  test.each([
    ["a different version", { version: 2 }, "version_mismatch", "version_mismatch: unsupported version 2"],
    [
      "an old id of a different key",
      { old_id: next.id },
      "issuer_mismatch",
      "old_id does not match old_pub_key",
    ],
    [
      "a new id of a different key",
      { new_id: ROOT.id },
      "issuer_mismatch",
      "new_id does not match new_pub_key",
    ],
    [
      "the same key twice",
      { new_id: ROOT.id, new_pub_key: ROOT.publicKey },
      "same_key",
      "old_id and new_id must differ",
    ],
  ])(
    "fails verification with %s, and the reason has the published wording",
    async (_, change, code, reason) => {
      const fault = await verifyKeyRotation(await issue(change));
      expect(fault).toMatchObject({ code });
      expect(fault && rotationReasonOf(fault)).toBe(reason);
    },
  );

  test("fails verification with a reason that names the invalid signature and its invalid half, in the published wording", async () => {
    const statement = await issue();
    const words = async (part: "signature_old" | "signature_new", half: "ed25519" | "ml_dsa_65") => {
      const changed = { ...statement[part], [half]: tamper(statement[part][half]) };
      const fault = await verifyKeyRotation({ ...statement, [part]: changed });
      return fault && rotationReasonOf(fault);
    };
    expect(await words("signature_old", "ed25519")).toBe("old signature invalid: Ed25519 signature invalid");
    expect(await words("signature_old", "ml_dsa_65")).toBe(
      "old signature invalid: ML-DSA-65 signature invalid",
    );
    expect(await words("signature_new", "ed25519")).toBe("new signature invalid: Ed25519 signature invalid");
    expect(await words("signature_new", "ml_dsa_65")).toBe(
      "new signature invalid: ML-DSA-65 signature invalid",
    );
  });

  test.each(["signature_old", "signature_new"] as const)(
    "fails verification if either half of %s is invalid",
    async (name) => {
      const statement = await issue();
      for (const half of halves) {
        const broken = {
          ...statement,
          [name]: { ...statement[name], [half]: tamper(statement[name][half]) },
        };
        expect(await verifyKeyRotation(broken)).toMatchObject({
          code: name.replace("signature", "bad_signature"),
        });
      }
    },
  );

  test("may follow an earlier rotation, but cannot use signatures of the earlier rotation", async () => {
    const last = testKey(7);
    const first = await issue();
    const second = await issueKeyRotation(
      {
        ...fields,
        old_id: next.id,
        old_pub_key: next.publicKey,
        new_id: last.id,
        new_pub_key: last.publicKey,
      },
      next.privateKey,
      last.privateKey,
    );
    expect(await verifyKeyRotation(first)).toBeUndefined();
    expect(await verifyKeyRotation(second)).toBeUndefined();
    const shortcut = {
      ...first,
      new_id: last.id,
      new_pub_key: last.publicKey,
      signature_new: second.signature_new,
    };
    expect(await verifyKeyRotation(shortcut)).toMatchObject({ code: "bad_signature_old" });
  });

  test("fails verification if both signatures are from the same key", async () => {
    const statement = await issue();
    expect(await verifyKeyRotation({ ...statement, signature_new: statement.signature_old })).toMatchObject({
      code: "bad_signature_new",
    });
    expect(await verifyKeyRotation({ ...statement, signature_old: statement.signature_new })).toMatchObject({
      code: "bad_signature_old",
    });
  });

  test("fails verification after a change of its reason, and fails decoding with an unknown reason", async () => {
    const statement = await issue();
    expect(await verifyKeyRotation({ ...statement, reason: "other" })).toMatchObject({
      code: "bad_signature_old",
    });
    expect(() => decodeKeyRotation(encode({ ...statement, reason: "bored" }))).toThrow(refuses("wrong_type"));
  });
});
