import { describe, expect, test } from "vitest";
import {
  decodeRevocationList,
  issueRevocationList,
  verifyRevocationList,
} from "../../src/protocol/statements/revocation_list.ts";
import {
  decodeRevocationPush,
  issueRevocationPush,
  verifyRevocationPush,
} from "../conformance/extensions/revocation_push.ts";
import { AGENT, encode, NOW, ROOT, tamper } from "../support/chains.ts";

const refuses = (code: string) => expect.objectContaining({ code });
const halves = ["ed25519", "ml_dsa_65"] as const;

describe("a revocation list", () => {
  const issue = (revoked_certs = ["a", "b"]) =>
    issueRevocationList({ issuer_id: ROOT.id, updated_at: NOW, revoked_certs }, ROOT.privateKey);

  test("verifies with its issuer's key after encoding and decoding, even if the list is empty", async () => {
    for (const list of [await issue(), await issue([])]) {
      expect(decodeRevocationList(encode(list))).toEqual(list);
      expect(await verifyRevocationList(list, ROOT.publicKey)).toBeUndefined();
    }
  });

  test("fails verification with any other key, even if that key signed the list", async () => {
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
  ])("fails verification after a change of %s", async (name, value) => {
    expect(await verifyRevocationList({ ...(await issue()), [name]: value }, ROOT.publicKey)).toMatchObject({
      code: "bad_signature",
    });
  });

  test.each(halves)("fails verification after a change of its %s half", async (half) => {
    const list = await issue();
    const signature = { ...list.signature, [half]: tamper(list.signature[half]) };
    expect(await verifyRevocationList({ ...list, signature }, ROOT.publicKey)).toMatchObject({
      code: "bad_signature",
    });
  });

  test("can be larger than a bundle if the reader sets a larger limit", async () => {
    const long = encode(
      await issue(Array.from({ length: 4000 }, (_, index) => `certificate number ${index} of this issuer`)),
    );
    expect(() => decodeRevocationList(long)).toThrow(refuses("too_large"));
    expect(decodeRevocationList(long, { maxBytes: long.length }).revoked_certs).toHaveLength(4000);
    expect(() => decodeRevocationList(long, { maxBytes: long.length - 1 })).toThrow(refuses("too_large"));
  });

  test("fails decoding with unknown, missing and mistyped members", async () => {
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
  ])("with sequence number %d after %s gives: %s", async (seqNo, last, expected) => {
    expect((await verifyRevocationPush(await issue(seqNo), ROOT.publicKey, last))?.code).toBe(expected);
  });

  test("fails verification if it is forged, whatever its sequence number", async () => {
    const push = { ...(await issue(9)), entries: ["a", "b"] };
    expect(await verifyRevocationPush(push, ROOT.publicKey, 7)).toMatchObject({ code: "bad_signature" });
    expect(await verifyRevocationPush(await issue(1), AGENT.publicKey, 0)).toMatchObject({
      code: "issuer_mismatch",
    });
  });

  test("stays the same after encoding and decoding, and requires entries and a sequence number of at least 1", async () => {
    const push = await issue(1);
    expect(decodeRevocationPush(encode(push))).toEqual(push);
    expect(decodeRevocationPush(encode({ ...push, entries: [] })).entries).toEqual([]);
    expect(() => decodeRevocationPush(encode({ ...push, seq_no: 0 }))).toThrow(refuses("invalid_integer"));
    expect(() => decodeRevocationPush(encode({ ...push, entries: null }))).toThrow(refuses("missing_field"));
  });
});
