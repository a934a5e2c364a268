import { describe, expect, test } from "vitest";
import {
  decodeVerificationReceipt,
  issueVerificationReceipt,
  verificationReceiptSignBytes,
  verifyReceiptChain,
  verifyVerificationReceipt,
} from "../../../src/protocol/statements/verification_receipt.ts";
import { AGENT, bytes32, encode, NOW, ROOT } from "../../support/chains.ts";

const refuses = (code: string) => expect.objectContaining({ code });

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

  test("verifies after encoding and decoding, with and without its optional fields", async () => {
    for (const content of [fields, full]) {
      const receipt = await issueVerificationReceipt(content, ROOT.privateKey);
      expect(decodeVerificationReceipt(encode(receipt))).toEqual(receipt);
      expect(await verifyVerificationReceipt(receipt, ROOT.publicKey)).toBeUndefined();
    }
  });

  test("has no empty optional fields in the signed bytes, and fails decoding with empty optional fields", async () => {
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

  test("has no empty optional fields when it is issued, so that it can be decoded", async () => {
    const empty = { agent_id: "", human_id: "", error_reason: "", granted_scope: [] };
    const receipt = await issueVerificationReceipt({ ...fields, ...empty }, ROOT.privateKey);
    for (const name of Object.keys(empty)) expect(receipt).not.toHaveProperty(name);
    expect(decodeVerificationReceipt(encode(receipt))).toEqual(receipt);
    expect(await verifyVerificationReceipt(receipt, ROOT.publicKey)).toBeUndefined();
  });

  test("contains its scopes sorted by code point, in the signed bytes and in the issued receipt", async () => {
    const granted_scope = ["meeting:speak", "custom:\u{1f600}", "custom:\ue000", "meeting:attend"];
    const sorted = ["custom:\ue000", "custom:\u{1f600}", "meeting:attend", "meeting:speak"];
    const receipt = await issueVerificationReceipt({ ...full, granted_scope }, ROOT.privateKey);
    expect(receipt.granted_scope).toEqual(sorted);
    expect(
      JSON.parse(Buffer.from(verificationReceiptSignBytes({ ...receipt, granted_scope })).toString()),
    ).toMatchObject({
      granted_scope: sorted,
    });
    expect(await verifyVerificationReceipt({ ...receipt, granted_scope }, ROOT.publicKey)).toBeUndefined();
  });

  test.each(["agent_id", "human_id", "error_reason", "decision", "verifier_id"] as const)(
    "fails verification after a change of its %s",
    async (name) => {
      const receipt = await issueVerificationReceipt(full, ROOT.privateKey);
      expect(await verifyVerificationReceipt({ ...receipt, [name]: "x" }, ROOT.publicKey)).toMatchObject({
        code: "bad_signature",
      });
    },
  );

  test("fails verification with any key other than its verifier's key, and with an unsupported version", async () => {
    const receipt = await issueVerificationReceipt(fields, ROOT.privateKey);
    expect(await verifyVerificationReceipt(receipt, AGENT.publicKey)).toMatchObject({
      code: "issuer_mismatch",
    });
    for (const half of ["ed25519", "ml_dsa_65"] as const) {
      const mixed = { ...ROOT.publicKey, [half]: AGENT.publicKey[half] };
      expect(await verifyVerificationReceipt(receipt, mixed)).toMatchObject({ code: "issuer_mismatch" });
    }
    const other = await issueVerificationReceipt({ ...fields, version: 2 }, ROOT.privateKey);
    expect(await verifyVerificationReceipt(other, ROOT.publicKey)).toMatchObject({
      code: "version_mismatch",
    });
  });

  test("must be chained to the previous receipt", async () => {
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
