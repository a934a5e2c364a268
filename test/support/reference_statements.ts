import type { ProofBundle } from "../../src/protocol/documents/proof_bundle.ts";
import { presentProof } from "../../src/protocol/statements/issuing.ts";
import {
  issueKeyRotation,
  type KeyRotationFields,
  type KeyRotationStatement,
} from "../../src/protocol/statements/key_rotation.ts";
import {
  issueVerificationReceipt,
  type VerificationReceiptFields,
} from "../../src/protocol/statements/verification_receipt.ts";
import { signTransaction, type TransactionReceipt } from "../conformance/extensions/transaction_receipt.ts";
import { genuineDocuments, SESSION_SECRET } from "../fuzz/seeds.ts";
import { AGENT, binding, bytes32, certify, NOW, ROOT, tamper, testKey } from "./chains.ts";
import type { Question } from "./reference_answers.ts";

/** A string that two implementations may encode differently. */
export const AWKWARD = '\u2028\u2029\u0001"\\/<&>é\ue000😀\u007f';

/** Changes one half of each certificate's signature in a proof. */
export function broken(bundle: ProofBundle, half: "ed25519" | "ml_dsa_65"): ProofBundle {
  const delegations = bundle.delegations.map((each) => ({
    ...each,
    signature: { ...each.signature, [half]: tamper(each.signature[half]) },
  }));
  return { ...bundle, delegations };
}

/** Returns questions about all documents except bundles. The questions are the same in every run. */
export async function statementQuestions(): Promise<Question[]> {
  return [
    ...(await rotationQuestions()),
    ...(await transactionQuestions()),
    ...(await receiptQuestions()),
    ...(await otherQuestions()),
  ];
}

async function rotationQuestions(): Promise<Question[]> {
  const next = testKey(6);
  const fields: KeyRotationFields = {
    version: 1,
    old_id: ROOT.id,
    old_pub_key: ROOT.publicKey,
    new_id: next.id,
    new_pub_key: next.publicKey,
    rotated_at: NOW,
    reason: "device_lost",
  };
  const issue = (change: Partial<KeyRotationFields> = {}) =>
    issueKeyRotation({ ...fields, ...change }, ROOT.privateKey, next.privateKey);
  const good = await issue();
  const rotation = (name: string, statement: KeyRotationStatement): Question => ({
    kind: "key_rotation",
    name: `rotation: ${name}`,
    document: JSON.stringify(statement),
  });
  const halves = (["signature_old", "signature_new"] as const).flatMap((part) =>
    (["ed25519", "ml_dsa_65"] as const).map((half) =>
      rotation(`${part} ${half} broken`, {
        ...good,
        [part]: { ...good[part], [half]: tamper(good[part][half]) },
      }),
    ),
  );
  return [
    rotation("good", good),
    rotation("version 2", await issue({ version: 2 })),
    rotation("another old id", await issue({ old_id: next.id })),
    rotation("another new id", await issue({ new_id: ROOT.id })),
    rotation("one key", await issue({ new_id: ROOT.id, new_pub_key: ROOT.publicKey })),
    rotation("another time", { ...good, rotated_at: NOW + 1 }),
    rotation("signatures exchanged", { ...good, signature_old: good.signature_new }),
    ...halves,
  ];
}

async function transactionQuestions(): Promise<Question[]> {
  const seller = testKey(3);
  const party = async (party_id: string, agent: typeof AGENT, scope: string) => ({
    party_id,
    role: party_id,
    agent_id: agent.id,
    agent_pub_key: agent.publicKey,
    proof_bundle: await presentProof(
      agent.privateKey,
      [await certify(ROOT, agent, { scope: [scope] })],
      binding(),
    ),
  });
  const [sells, buys] = await Promise.all([
    party("seller", seller, "transact:sell"),
    party("buyer", AGENT, "payments:send"),
  ]);
  const fields = {
    version: 1,
    transaction_id: "tx-1",
    created_at: NOW,
    terms_schema_uri: "https://example.org/terms/v1",
    terms_canonical_json: Buffer.from('{"amount":500}').toString("base64"),
    parties: [sells, buys],
  };
  const sign = async (signed: typeof fields): Promise<TransactionReceipt> => ({
    ...signed,
    party_signatures: [
      await signTransaction(signed, "buyer", AGENT.privateKey),
      await signTransaction(signed, "seller", seller.privateKey),
    ],
  });
  const good = await sign(fields);
  const [buyer, seller_] = good.party_signatures;
  if (buyer === undefined || seller_ === undefined) throw new Error("both sign");
  const receipt = (name: string, changes: Partial<TransactionReceipt>, now = NOW): Question => ({
    kind: "transaction_receipt",
    name: `transaction: ${name}`,
    document: JSON.stringify({ ...good, ...changes }),
    now,
  });
  const half = { ...seller_.signature, ml_dsa_65: tamper(seller_.signature.ml_dsa_65) };
  return [
    receipt("good", {}),
    receipt("version 2", { version: 2 }),
    receipt("other terms", { terms_canonical_json: "AAAA" }),
    receipt("no schema", await sign({ ...fields, terms_schema_uri: "" })),
    receipt("no terms", await sign({ ...fields, terms_canonical_json: "" })),
    receipt("nobody", { parties: [], party_signatures: [] }),
    receipt("a party twice", { parties: [...good.parties, sells] }),
    receipt("a signature missing", { party_signatures: [buyer] }),
    receipt("a signature twice", { party_signatures: [buyer, seller_, buyer] }),
    receipt("a stranger's signature", { party_signatures: [buyer, seller_, { ...buyer, party_id: "x" }] }),
    receipt("half a signature", { party_signatures: [buyer, { ...seller_, signature: half }] }),
    receipt("another agent's id", { parties: [{ ...sells, agent_id: "someone" }, buys] }),
    receipt("another agent's key", { parties: [{ ...sells, agent_pub_key: AGENT.publicKey }, buys] }),
    receipt("another agent's proof", { parties: [sells, { ...buys, proof_bundle: sells.proof_bundle }] }),
    receipt("stale proofs", {}, NOW + 301),
    receipt("expired certificates", {}, NOW + 1801),
    receipt("a proof broken and a signature too", {
      parties: [sells, { ...buys, proof_bundle: broken(buys.proof_bundle, "ed25519") }],
      party_signatures: [buyer, { ...seller_, signature: half }],
    }),
  ];
}

async function receiptQuestions(): Promise<Question[]> {
  const fields: Omit<VerificationReceiptFields, "prev_hash"> = {
    version: 1,
    bundle_hash: bytes32(4),
    decision: "authorized_agent",
    verified_at: NOW,
    verifier_id: AWKWARD,
    verifier_pub: ROOT.publicKey,
  };
  const scopes = ["meeting:speak", "custom:\ue000", "custom:😀", "meeting:attend"];
  const all = { agent_id: AGENT.id, human_id: ROOT.id, granted_scope: scopes };
  const first = await issueVerificationReceipt(fields, ROOT.privateKey);
  const second = await issueVerificationReceipt({ ...fields, ...all }, ROOT.privateKey, first);
  const denied = { ...fields, decision: "revoked", error_reason: "delegation certificate has been revoked" };
  const third = await issueVerificationReceipt(denied, ROOT.privateKey, second);
  const unsorted = { ...second, granted_scope: scopes };
  return Object.entries({ first, second, third, unsorted, changed: { ...second, human_id: "someone" } }).map(
    ([name, receipt]) => ({
      kind: "verification_receipt",
      name: `receipt: ${name}`,
      document: JSON.stringify(receipt),
      key: ROOT.publicKey,
    }),
  );
}

async function otherQuestions(): Promise<Question[]> {
  const documents = await genuineDocuments();
  const text = (kind: "revocationList" | "revocationPush" | "witnessEntry" | "sessionToken") =>
    documents[kind].map((bytes) => Buffer.from(bytes).toString());
  const secret = SESSION_SECRET.toString("base64");
  const token = JSON.parse(text("sessionToken")[0] ?? "");
  const tokens = [token, { ...token, version: 2 }, { ...token, human_id: "someone" }];
  const key = ROOT.publicKey;
  return [
    ...text("revocationList").map(
      (document): Question => ({ kind: "revocation_list", name: "a list", document, key }),
    ),
    ...text("revocationPush").map(
      (document): Question => ({ kind: "revocation_push", name: "a push", document, key }),
    ),
    ...text("witnessEntry").map(
      (document): Question => ({ kind: "witness_entry", name: "an entry", document, key }),
    ),
    ...tokens.flatMap((each, index) =>
      [NOW, NOW - 11, NOW + 11].map(
        (now): Question => ({
          kind: "session_token",
          name: `token ${index} at ${now - NOW}`,
          document: JSON.stringify(each),
          secret,
          now,
        }),
      ),
    ),
  ];
}
