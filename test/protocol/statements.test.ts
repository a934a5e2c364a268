import { describe, expect, test } from "vitest";
import { encodeBase64 } from "../../src/protocol/base64.ts";
import {
  decodeKeyRotation,
  issueKeyRotation,
  type KeyRotationFields,
  ROTATION_REASONS,
  verifyKeyRotation,
} from "../../src/protocol/key_rotation.ts";
import {
  decodeRevocationList,
  issueRevocationList,
  verifyRevocationList,
} from "../../src/protocol/revocation_list.ts";
import {
  decodeRevocationPush,
  issueRevocationPush,
  verifyRevocationPush,
} from "../../src/protocol/revocation_push.ts";
import {
  decodeVerificationReceipt,
  issueVerificationReceipt,
  verificationReceiptSignBytes,
  verifyReceiptChain,
  verifyVerificationReceipt,
} from "../../src/protocol/verification_receipt.ts";
import {
  decodeWitnessEntry,
  issueWitnessEntry,
  verifyWitnessEntry,
  verifyWitnessLog,
} from "../../src/protocol/witness_entry.ts";
import { AGENT, bytes32, encode, NOW, ROOT, tamper, testKey } from "../support/chains.ts";

const refuses = (code: string) => expect.objectContaining({ code });
const halves = ["ed25519", "ml_dsa_65"] as const;

describe("a revocation list", () => {
  const issue = (revoked_certs = ["a", "b"]) =>
    issueRevocationList({ issuer_id: ROOT.id, updated_at: NOW, revoked_certs }, ROOT.privateKey);

  test("travels and verifies under its issuer's key, empty too", async () => {
    for (const list of [await issue(), await issue([])]) {
      expect(decodeRevocationList(encode(list))).toEqual(list);
      expect(await verifyRevocationList(list, ROOT.publicKey)).toBeUndefined();
    }
  });

  test("is refused under another key, even one that signed it", async () => {
    expect(await verifyRevocationList(await issue(), AGENT.publicKey)).toMatchObject({
      code: "issuer_mismatch",
    });
    const foreign = await issueRevocationList(
      { issuer_id: ROOT.id, updated_at: NOW, revoked_certs: [] },
      AGENT.privateKey,
    );
    expect(await verifyRevocationList(foreign, AGENT.publicKey)).toMatchObject({ code: "issuer_mismatch" });
    expect(await verifyRevocationList(foreign, ROOT.publicKey)).toMatchObject({ code: "bad_signature" });
  });

  test.each([
    ["updated_at", NOW + 1],
    ["revoked_certs", ["a"]],
    ["revoked_certs", ["b", "a"]],
  ])("is refused with its %s changed", async (name, value) => {
    expect(await verifyRevocationList({ ...(await issue()), [name]: value }, ROOT.publicKey)).toMatchObject({
      code: "bad_signature",
    });
  });

  test.each(halves)("is refused with its %s half changed", async (half) => {
    const list = await issue();
    const signature = { ...list.signature, [half]: tamper(list.signature[half]) };
    expect(await verifyRevocationList({ ...list, signature }, ROOT.publicKey)).toMatchObject({
      code: "bad_signature",
    });
  });

  test("may be longer than a bundle where its reader says so, and not longer than that", async () => {
    const long = encode(
      await issue(Array.from({ length: 4000 }, (_, index) => `certificate number ${index} of this issuer`)),
    );
    expect(() => decodeRevocationList(long)).toThrow(refuses("too_large"));
    expect(decodeRevocationList(long, { maxBytes: long.length }).revoked_certs).toHaveLength(4000);
    expect(() => decodeRevocationList(long, { maxBytes: long.length - 1 })).toThrow(refuses("too_large"));
  });

  test("is decoded strictly", async () => {
    const list = await issue();
    expect(() => decodeRevocationList(encode({ ...list, extra: 1 }))).toThrow(refuses("unknown_field"));
    expect(() => decodeRevocationList(encode({ ...list, revoked_certs: null }))).toThrow(
      refuses("missing_field"),
    );
    expect(() => decodeRevocationList(encode({ ...list, updated_at: 1.5 }))).toThrow(
      refuses("invalid_integer"),
    );
  });
});

describe("a revocation push", () => {
  const issue = (seq_no: number) =>
    issueRevocationPush({ issuer_id: ROOT.id, seq_no, entries: ["a"], pushed_at: NOW }, ROOT.privateKey);

  test.each([
    [1, 0, undefined],
    [8, 7, undefined],
    [7, 7, "seq_replay"],
    [1, 7, "seq_replay"],
    [9, 7, "seq_skip"],
    [9, undefined, undefined],
  ])("number %d after %s: %s", async (seqNo, last, expected) => {
    expect((await verifyRevocationPush(await issue(seqNo), ROOT.publicKey, last))?.code).toBe(expected);
  });

  test("is refused when it is forged, whatever its number", async () => {
    const push = { ...(await issue(9)), entries: ["a", "b"] };
    expect(await verifyRevocationPush(push, ROOT.publicKey, 7)).toMatchObject({ code: "bad_signature" });
    expect(await verifyRevocationPush(await issue(1), AGENT.publicKey, 0)).toMatchObject({
      code: "issuer_mismatch",
    });
  });

  test("travels, from number 1 on, with entries", async () => {
    const push = await issue(1);
    expect(decodeRevocationPush(encode(push))).toEqual(push);
    expect(decodeRevocationPush(encode({ ...push, entries: [] })).entries).toEqual([]);
    expect(() => decodeRevocationPush(encode({ ...push, seq_no: 0 }))).toThrow(refuses("invalid_integer"));
    expect(() => decodeRevocationPush(encode({ ...push, entries: null }))).toThrow(refuses("missing_field"));
  });
});

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

  test.each(ROTATION_REASONS)("for the reason %s travels and verifies", async (reason) => {
    const statement = await issue({ reason });
    expect(decodeKeyRotation(encode(statement))).toEqual(statement);
    expect(await verifyKeyRotation(statement)).toBeUndefined();
  });

  test.each([
    ["another version", { version: 2 }, "version_mismatch"],
    ["an old id of another key", { old_id: next.id }, "issuer_mismatch"],
    ["a new id of another key", { new_id: ROOT.id }, "issuer_mismatch"],
    ["the same key twice", { new_id: ROOT.id, new_pub_key: ROOT.publicKey }, "same_key"],
  ])("is refused with %s", async (_, change, code) => {
    expect(await verifyKeyRotation(await issue(change))).toMatchObject({ code });
  });

  test.each(["signature_old", "signature_new"] as const)("needs %s in both halves", async (name) => {
    const statement = await issue();
    for (const half of halves) {
      const broken = { ...statement, [name]: { ...statement[name], [half]: tamper(statement[name][half]) } };
      expect(await verifyKeyRotation(broken)).toMatchObject({
        code: name.replace("signature", "bad_signature"),
      });
    }
  });

  test("may follow another, and neither stands for the other", async () => {
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

  test("is refused with one key's signature in both places", async () => {
    const statement = await issue();
    expect(await verifyKeyRotation({ ...statement, signature_new: statement.signature_old })).toMatchObject({
      code: "bad_signature_new",
    });
    expect(await verifyKeyRotation({ ...statement, signature_old: statement.signature_new })).toMatchObject({
      code: "bad_signature_old",
    });
  });

  test("is refused with its reason changed, and not read with an unknown one", async () => {
    const statement = await issue();
    expect(await verifyKeyRotation({ ...statement, reason: "other" })).toMatchObject({
      code: "bad_signature_old",
    });
    expect(() => decodeKeyRotation(encode({ ...statement, reason: "bored" }))).toThrow(refuses("wrong_type"));
  });
});

describe("a witness's log", () => {
  const log = async () => {
    const first = await issueWitnessEntry(
      { entry_data: encodeBase64(Buffer.from("1")), timestamp: NOW, witness_id: ROOT.id },
      ROOT.privateKey,
    );
    const second = await issueWitnessEntry(
      { entry_data: "", timestamp: NOW + 1, witness_id: ROOT.id },
      ROOT.privateKey,
      first,
    );
    return [first, second] as const;
  };

  test("starts from zeros, links each entry to the one before, travels and verifies", async () => {
    const entries = await log();
    expect(entries[0].prev_hash).toBe(bytes32(0));
    for (const entry of entries) expect(decodeWitnessEntry(encode(entry))).toEqual(entry);
    expect(await verifyWitnessLog(entries, ROOT.publicKey)).toBeUndefined();
    expect(await verifyWitnessLog([], ROOT.publicKey)).toBeUndefined();
  });

  test("is refused with an entry taken out, doubled or moved", async () => {
    const [first, second] = await log();
    for (const broken of [[second], [first, first], [second, first], [first, second, second]]) {
      expect(await verifyWitnessLog(broken, ROOT.publicKey)).toMatchObject({ code: "broken_log" });
    }
  });

  test("is refused with an entry changed, or under another key", async () => {
    const [first] = await log();
    expect(await verifyWitnessEntry({ ...first, timestamp: NOW + 5 }, ROOT.publicKey)).toMatchObject({
      code: "bad_signature",
    });
    expect(await verifyWitnessLog([{ ...first, entry_data: "" }], ROOT.publicKey)).toMatchObject({
      code: "bad_signature",
    });
    expect(await verifyWitnessEntry(first, AGENT.publicKey)).toMatchObject({ code: "issuer_mismatch" });
  });
});

describe("a verification receipt", () => {
  const fields = {
    version: 1,
    bundle_hash: bytes32(1),
    decision: "deny",
    verified_at: NOW,
    verifier_id: "connection-1",
    verifier_pub: ROOT.publicKey,
  };
  const full = {
    ...fields,
    agent_id: AGENT.id,
    human_id: ROOT.id,
    error_reason: "scope_denied: no",
    granted_scope: ["meeting:attend"],
  };

  test("travels and verifies, with and without its optional fields", async () => {
    for (const content of [fields, full]) {
      const receipt = await issueVerificationReceipt(content, ROOT.privateKey);
      expect(decodeVerificationReceipt(encode(receipt))).toEqual(receipt);
      expect(await verifyVerificationReceipt(receipt, ROOT.publicKey)).toBeUndefined();
    }
  });

  test("leaves empty optional fields out of what is signed, and does not read them", async () => {
    const empty = { agent_id: "", human_id: "", error_reason: "", granted_scope: [] };
    const signed = (content: object) =>
      Buffer.from(verificationReceiptSignBytes({ ...fields, prev_hash: bytes32(0), ...content })).toString();
    expect(signed(empty)).toBe(signed({}));
    const receipt = await issueVerificationReceipt(fields, ROOT.privateKey);
    for (const [name, value] of Object.entries(empty)) {
      expect(() => decodeVerificationReceipt(encode({ ...receipt, [name]: value }))).toThrow(
        refuses("missing_field"),
      );
    }
  });

  test.each(["agent_id", "human_id", "error_reason", "decision", "verifier_id"] as const)(
    "is refused with its %s changed",
    async (name) => {
      const receipt = await issueVerificationReceipt(full, ROOT.privateKey);
      expect(await verifyVerificationReceipt({ ...receipt, [name]: "x" }, ROOT.publicKey)).toMatchObject({
        code: "bad_signature",
      });
    },
  );

  test("is refused under another key than it carries, and in another version", async () => {
    const receipt = await issueVerificationReceipt(fields, ROOT.privateKey);
    expect(await verifyVerificationReceipt(receipt, AGENT.publicKey)).toMatchObject({
      code: "issuer_mismatch",
    });
    const other = await issueVerificationReceipt({ ...fields, version: 2 }, ROOT.privateKey);
    expect(await verifyVerificationReceipt(other, ROOT.publicKey)).toMatchObject({
      code: "version_mismatch",
    });
  });

  test("is chained to the one before", async () => {
    const first = await issueVerificationReceipt(fields, ROOT.privateKey);
    const second = await issueVerificationReceipt(full, ROOT.privateKey, first);
    expect(await verifyReceiptChain([first, second], ROOT.publicKey)).toBeUndefined();
    for (const broken of [[second], [first, first], [second, first]]) {
      expect(await verifyReceiptChain(broken, ROOT.publicKey)).toMatchObject({ code: "broken_log" });
    }
    const changed = { ...first, decision: "allow" };
    expect(await verifyReceiptChain([changed, second], ROOT.publicKey)).toMatchObject({
      code: "bad_signature",
    });
  });
});
