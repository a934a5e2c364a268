import type { Constraint } from "../../src/protocol/constraints/constraints.ts";
import { challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
import type { ProofBundle } from "../../src/protocol/documents/proof_bundle.ts";
import { publicKeyOf, signHybrid } from "../../src/protocol/keys/hybrid.ts";
import { issueKeyRotation } from "../../src/protocol/statements/key_rotation.ts";
import { issueRevocationList } from "../../src/protocol/statements/revocation_list.ts";
import { issueVerificationReceipt } from "../../src/protocol/statements/verification_receipt.ts";
import { issueRevocationPush } from "../conformance/extensions/revocation_push.ts";
import { issueSessionToken } from "../conformance/extensions/session_token.ts";
import type { StreamedTurn } from "../conformance/extensions/streamed_turn.ts";
import { signTransaction } from "../conformance/extensions/transaction_receipt.ts";
import { issueWitnessEntry } from "../conformance/extensions/witness_entry.ts";
import { AGENT, binding, bytes32, certify, encode, NOW, prove, ROOT, testKey } from "../support/chains.ts";

/** The documents from which all inputs are mutated: one of each kind that verifies, and a denied bundle. */
export type Genuine = Awaited<ReturnType<typeof genuineDocuments>>;

/** The secret for the MAC of the genuine session token. It is public and only for tests. */
export const SESSION_SECRET = Buffer.alloc(32, 9);

/** One constraint of each type. All of them hold for the context of the property tests. */
export const CONSTRAINTS: Constraint[] = [
  { type: "geo_circle", lat: 47.4, lon: 8.5, radius_m: 10_000.5 },
  {
    type: "geo_polygon",
    points: [
      [46, 6],
      [46, 10.5],
      [48, 10],
      [48, 6],
    ],
  },
  { type: "geo_bbox", min_lat: 45, min_lon: 170, max_lat: 48, max_lon: 9, min_alt_m: 0, max_alt_m: 4000 },
  { type: "time_window", start: "22:00", end: "21:59", tz: "Europe/Zurich" },
  { type: "max_speed_mps", max_mps: 3.5 },
  { type: "max_amount", max_amount: 100, currency: "CHF" },
  { type: "max_rate", count: 10, window_s: 3600 },
  { type: "resource_path", resource_id: "repo", path_prefix: "/src" },
];

/** Creates the genuine documents and signs them with the test keys. */
export async function genuineDocuments() {
  const bundles = await genuineBundles();
  return {
    bundle: bundles.map(encode),
    certificate: [
      encode(await certify(ROOT, AGENT)),
      encode(
        await certify(ROOT, AGENT, {
          constraints: [...CONSTRAINTS, { type: "new", params: [null, { a: 1 }] }],
        }),
      ),
    ],
    revocationList: [
      encode(
        await issueRevocationList(
          { issuer_id: ROOT.id, updated_at: NOW, revoked_certs: ["cert-1", "é"] },
          ROOT.privateKey,
        ),
      ),
    ],
    revocationPush: [
      encode(
        await issueRevocationPush(
          { issuer_id: ROOT.id, seq_no: 1, entries: ["cert-1"], pushed_at: NOW },
          ROOT.privateKey,
        ),
      ),
    ],
    keyRotation: [encode(await rotation())],
    witnessEntry: [
      encode(
        await issueWitnessEntry({ entry_data: "AAEC", timestamp: NOW, witness_id: ROOT.id }, ROOT.privateKey),
      ),
    ],
    sessionToken: [encode(sessionToken(bundles))],
    streamedTurn: (await genuineTurns()).map(encode),
    transactionReceipt: [encode(await transactionReceipt())],
    verificationReceipt: [encode(await verificationReceipt())],
  };
}

function genuineBundles(): Promise<ProofBundle[]> {
  const delegate = ["meeting:*", "files:read", "identity:delegate"];
  return Promise.all([
    prove([{ scope: ["files:read"] }]),
    prove([{ scope: ["files:read", "custom:\u2028é"], constraints: CONSTRAINTS }], {
      session_context: bytes32(1),
    }),
    prove([{ scope: delegate }, { scope: delegate }], { stream_id: bytes32(2), stream_seq: 1 }),
    prove([
      { scope: ["meeting:attend"] },
      { scope: delegate },
      { scope: delegate, constraints: CONSTRAINTS.slice(0, 2) },
    ]),
    prove([{ scope: ["files:read"] }, { scope: ["files:read", "identity:prove"] }]),
  ]);
}

function rotation() {
  const next = testKey(3);
  return issueKeyRotation(
    {
      version: 1,
      old_id: ROOT.id,
      old_pub_key: ROOT.publicKey,
      new_id: next.id,
      new_pub_key: next.publicKey,
      rotated_at: NOW,
      reason: "routine",
    },
    ROOT.privateKey,
    next.privateKey,
  );
}

function sessionToken([bundle]: ProofBundle[]) {
  return issueSessionToken(
    {
      session_id: "session",
      agent_id: AGENT.id,
      agent_pub_key: AGENT.publicKey,
      chain: bundle?.delegations ?? [],
      granted_scope: ["files:read"],
      issued_at: NOW - 10,
      valid_until: NOW + 10,
    },
    SESSION_SECRET,
  );
}

function genuineTurns(): Promise<StreamedTurn[]> {
  const bindings = [
    {},
    { session_context: bytes32(1) },
    { challenge: bytes32(8), stream_id: bytes32(2), stream_seq: 2 },
  ].map(binding);
  return Promise.all(
    bindings.map(async (bound) => ({
      ...bound,
      challenge_sig: await signHybrid(AGENT.privateKey, challengeSignBytes(bound)),
    })),
  );
}

async function transactionReceipt() {
  const proof_bundle = await prove();
  const party = { agent_id: AGENT.id, agent_pub_key: AGENT.publicKey };
  const fields = {
    version: 1,
    transaction_id: "transaction",
    created_at: NOW,
    terms_schema_uri: "https://example.test/terms",
    terms_canonical_json: Buffer.from('{"price":1}').toString("base64"),
    parties: [
      { ...party, party_id: "buyer", role: "buyer", proof_bundle },
      { ...party, party_id: "seller", role: "seller", proof_bundle },
    ],
  };
  const party_signatures = await Promise.all(
    fields.parties.map(({ party_id }) => signTransaction(fields, party_id, AGENT.privateKey)),
  );
  return { ...fields, party_signatures };
}

function verificationReceipt() {
  return issueVerificationReceipt(
    {
      version: 1,
      bundle_hash: bytes32(5),
      decision: "deny",
      verified_at: NOW,
      verifier_id: "verifier",
      verifier_pub: publicKeyOf(ROOT.privateKey),
      error_reason: "expired",
      granted_scope: ["files:read"],
    },
    ROOT.privateKey,
  );
}
