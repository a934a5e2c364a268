import { beforeAll, describe, expect, test } from "vitest";
import { presentProof } from "../../../src/protocol/statements/issuing.ts";
import {
  AGENT,
  binding,
  certify,
  encode,
  NOW,
  ROOT,
  type TestKey,
  tamper,
  testKey,
} from "../../support/chains.ts";
import {
  decodeTransactionReceipt,
  type ProvenParty,
  receiptReasonOf,
  signTransaction,
  type TransactionReceipt,
  transactionReceiptSignBytes,
  verifyTransactionReceipt,
} from "./transaction_receipt.ts";

const SELLER = testKey(3);
let receipt: TransactionReceipt;

async function party(party_id: string, role: string, agent: TestKey, scope: string): Promise<ProvenParty> {
  const certificate = await certify(ROOT, agent, { scope: [scope] });
  const proof_bundle = await presentProof(agent.privateKey, [certificate], binding());
  return { party_id, role, agent_id: agent.id, agent_pub_key: agent.publicKey, proof_bundle };
}

beforeAll(async () => {
  const fields = {
    version: 1,
    transaction_id: "tx-1",
    created_at: NOW,
    terms_schema_uri: "https://example.org/terms/v1",
    terms_canonical_json: Buffer.from('{"amount":500}').toString("base64"),
    parties: [
      await party("seller", "seller", SELLER, "transact:sell"),
      await party("buyer", "buyer", AGENT, "payments:send"),
    ],
  };
  receipt = {
    ...fields,
    party_signatures: [
      await signTransaction(fields, "buyer", AGENT.privateKey),
      await signTransaction(fields, "seller", SELLER.privateKey),
    ],
  };
});

const fault = async (changes: Partial<TransactionReceipt> = {}, now = NOW) =>
  (await verifyTransactionReceipt({ ...receipt, ...changes }, () => ({ now })))?.code;

describe("a transaction receipt", () => {
  test("verifies after it is encoded and decoded, with its parties in any order", async () => {
    expect(decodeTransactionReceipt(encode(receipt))).toEqual(receipt);
    expect(await fault()).toBeUndefined();
    expect(
      await fault({
        parties: [...receipt.parties].reverse(),
        party_signatures: [...receipt.party_signatures].reverse(),
      }),
    ).toBeUndefined();
  });

  test("contains its parties in sorted order and without their proofs in the signed bytes", () => {
    const signed = JSON.parse(Buffer.from(transactionReceiptSignBytes(receipt)).toString());
    expect(signed.parties.map((each: object) => [Object.keys(each), (each as ProvenParty).party_id])).toEqual(
      [
        [["agent_id", "agent_pub_key", "party_id", "role"], "buyer"],
        [["agent_id", "agent_pub_key", "party_id", "role"], "seller"],
      ],
    );
  });

  test.each([
    ["transaction_id", "tx-2"],
    ["created_at", NOW + 1],
    ["terms_schema_uri", "https://example.org/terms/v2"],
    ["terms_canonical_json", "AAAA"],
  ])("fails verification after a change of its %s", async (name, value) => {
    expect(await fault({ [name]: value })).toBe("party_signature_invalid");
  });

  test("contains its parties sorted by the UTF-8 bytes of their ids in the signed bytes", () => {
    const parties = ["\u{1f600}", "\uffee", "b"].map((party_id) => ({
      party_id,
      role: "witness",
      agent_id: AGENT.id,
      agent_pub_key: AGENT.publicKey,
    }));
    const signed = JSON.parse(Buffer.from(transactionReceiptSignBytes({ ...receipt, parties })).toString());
    expect(signed.parties.map((each: ProvenParty) => each.party_id)).toEqual(["b", "\uffee", "\u{1f600}"]);
  });

  test("fails verification after a change of a role", async () => {
    const parties = receipt.parties.map((each) => ({ ...each, role: "witness" }));
    expect(await fault({ parties })).toBe("party_signature_invalid");
  });

  test("requires exactly one signature of every party, and no other signatures", async () => {
    const [buyer, seller] = receipt.party_signatures as [
      (typeof receipt.party_signatures)[0],
      (typeof receipt.party_signatures)[0],
    ];
    expect(await fault({ party_signatures: [buyer] })).toBe("missing_party_signature");
    expect(await fault({ party_signatures: [buyer, buyer, seller] })).toBe("duplicate_party_signature");
    expect(await fault({ party_signatures: [buyer, seller, { ...seller, party_id: "x" }] })).toBe(
      "unknown_party_signature",
    );
    expect(await fault({ party_signatures: [buyer, { ...buyer, party_id: "seller" }] })).toBe(
      "party_signature_invalid",
    );
    const broken = {
      ...seller,
      signature: { ...seller.signature, ml_dsa_65: tamper(seller.signature.ml_dsa_65) },
    };
    expect(await fault({ party_signatures: [buyer, broken] })).toBe("party_signature_invalid");
  });

  test("requires at least one party, no duplicate parties, and version 1", async () => {
    expect(await fault({ parties: [], party_signatures: [] })).toBe("no_parties");
    expect(await fault({ parties: [...receipt.parties, ...receipt.parties] })).toBe("duplicate_party_id");
    expect(await fault({ version: 2 })).toBe("version_mismatch");
  });

  test.each([
    [{ transaction_id: "" }, "missing_transaction_id: transaction_id must not be empty"],
    [{ terms_schema_uri: "" }, "missing_terms_schema_uri: terms_schema_uri must not be empty"],
    [{ terms_canonical_json: "" }, "missing_terms_canonical_json: terms_canonical_json must not be empty"],
    [{ version: 2 }, "version_mismatch: unsupported version 2"],
    [{ parties: [] }, "no_parties: receipt must list at least one party"],
    [{ party_signatures: [] }, 'missing_party_signature: party "seller" has no signature'],
  ])("fails verification with %j, with a reason in the published wording", async (changes, reason) => {
    const found = await verifyTransactionReceipt({ ...receipt, ...changes }, () => ({ now: NOW }));
    expect(found && receiptReasonOf(found)).toBe(reason);
  });

  test("fails verification with a reason in the published wording if a party is invalid, even if this party has no id", async () => {
    const [seller, buyer] = receipt.parties as [ProvenParty, ProvenParty];
    const words = async (changes: Partial<TransactionReceipt>) => {
      const found = await verifyTransactionReceipt({ ...receipt, ...changes }, () => ({ now: NOW }));
      return found && receiptReasonOf(found);
    };
    const [signed] = receipt.party_signatures as [(typeof receipt.party_signatures)[0]];
    expect(await words({ parties: [seller, { ...buyer, party_id: "" }] })).toBe(
      "empty_party_id: party 1 has no party_id",
    );
    expect(await words({ parties: [seller, seller] })).toBe(
      'duplicate_party_id: "seller" listed more than once',
    );
    expect(await words({ party_signatures: [signed, { ...signed, party_id: "x" }] })).toBe(
      'unknown_party_signature: signature 1 references unknown party_id "x"',
    );
    expect(await words({ party_signatures: [signed, signed] })).toBe(
      'duplicate_party_signature: party "buyer" has multiple signatures',
    );
    expect(await words({ parties: [seller, { ...buyer, proof_bundle: seller.proof_bundle }] })).toBe(
      `party_agent_id_mismatch: party "buyer" proof_bundle.agent_id="${SELLER.id}" != party.agent_id="${AGENT.id}"`,
    );
    expect(await words({ parties: [{ ...seller, agent_pub_key: AGENT.publicKey }, buyer] })).toBe(
      'party_agent_key_mismatch: party "seller" proof_bundle.agent_pub_key != party.agent_pub_key',
    );
  });

  test("fails verification for the first invalid party, and for the proof if this party's signature is also invalid", async () => {
    const [buyer, seller] = receipt.party_signatures as [
      (typeof receipt.party_signatures)[0],
      (typeof receipt.party_signatures)[0],
    ];
    const half = { ...seller.signature, ed25519: tamper(seller.signature.ed25519) };
    const party_signatures = [buyer, { ...seller, signature: half }];
    expect(await fault({ party_signatures })).toBe("party_signature_invalid");
    expect(await fault({ party_signatures }, NOW + 301)).toBe("party_bundle_invalid");
    const [sells, buys] = receipt.parties as [ProvenParty, ProvenParty];
    const stale = { ...buys, proof_bundle: { ...buys.proof_bundle, challenge_at: NOW - 301 } };
    expect(await fault({ party_signatures, parties: [sells, stale] })).toBe("party_signature_invalid");
    expect(await fault({ party_signatures, parties: [stale, sells] })).toBe("party_bundle_invalid");
  });

  test("requires a valid proof of every party", async () => {
    expect(await fault({}, NOW + 301)).toBe("party_bundle_invalid");
    const [seller, buyer] = receipt.parties as [ProvenParty, ProvenParty];
    expect(await fault({ parties: [seller, { ...buyer, proof_bundle: seller.proof_bundle }] })).toBe(
      "party_agent_id_mismatch",
    );
    const denied = await verifyTransactionReceipt(receipt, ({ role }) => ({
      now: NOW,
      required_scope: role === "seller" ? "transact:sell" : "contract:sign",
    }));
    expect(denied).toMatchObject({
      code: "party_bundle_invalid",
      detail: expect.stringMatching(/^party "buyer" status=scope_denied reason=scope_denied: /),
    });
  });

  test("requires each party's id and key to match the party's proof, even if the signature is valid", async () => {
    const { party_signatures: _, ...fields } = receipt;
    const parties = receipt.parties.map((each) => ({ ...each, agent_id: "someone" }));
    const renamed = { ...fields, parties };
    const signatures = [
      await signTransaction(renamed, "buyer", AGENT.privateKey),
      await signTransaction(renamed, "seller", SELLER.privateKey),
    ];
    expect(await fault({ parties, party_signatures: signatures })).toBe("party_agent_id_mismatch");
  });

  test("fails decoding with unknown or mistyped members, even if they are inside its proofs", () => {
    const [first] = receipt.parties as [ProvenParty];
    const refuses = (code: string) => expect.objectContaining({ code });
    expect(() => decodeTransactionReceipt(encode({ ...receipt, extra: 1 }))).toThrow(
      refuses("unknown_field"),
    );
    expect(() => decodeTransactionReceipt(encode({ ...receipt, parties: [{ ...first, extra: 1 }] }))).toThrow(
      refuses("unknown_field"),
    );
    expect(() =>
      decodeTransactionReceipt(
        encode({ ...receipt, parties: [{ ...first, proof_bundle: { ...first.proof_bundle, extra: 1 } }] }),
      ),
    ).toThrow(refuses("unknown_field"));
    expect(() => decodeTransactionReceipt(encode({ ...receipt, terms_canonical_json: "?" }))).toThrow(
      refuses("invalid_base64"),
    );
  });
});
