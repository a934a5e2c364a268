import { hash } from "node:crypto";
import type { ProofBundle } from "../../src/protocol/documents/proof_bundle.ts";
import { independentCanonicalJson } from "../support/canonical_oracle.ts";
import { actor } from "./actors.ts";
import { prove } from "./make_verify.ts";
import { NOW } from "./verify_cases.ts";

const VERIFIER = actor("verifier", 1);
const UNBOUND = { session_context: "", stream_id: "", stream_seq: 0 };
const BOX = { type: "geo_bbox", min_lat: -1.5, min_lon: 0, max_lat: 1, max_lon: 1 } as const;
const bytes = (byte: number) => Buffer.alloc(32, byte).toString("base64");

/**
 * Returns inputs with the bytes and hashes that every implementation must compute from them. The format is
 * that of the published list.
 */
export function crossVectors(): object {
  const bound = { session_context: bytes(9), stream_id: bytes(8), stream_seq: 3 };
  const session = { session_context: bytes(9) };
  const flat = prove({ chain: [{ constraints: [{ ...BOX, min_alt_m: 0, max_alt_m: 0 }] }] });
  const high = prove({ chain: [{ constraints: [{ ...BOX, min_alt_m: 0, max_alt_m: 120 }] }] });
  const [certificate] = flat.delegations;
  return {
    description: "Hashes of bundles, and the bytes of a receipt whose scopes are not sorted as it is sent.",
    vectors: [
      bundleVector("own_bundle_hash_unbound", "Bound to nothing.", prove({})),
      bundleVector("own_bundle_hash_session", "Bound to a session.", prove({ binding: session })),
      bundleVector("own_bundle_hash_bound", "Bound to a session and a stream.", prove({ binding: bound })),
      bundleVector("own_bundle_hash_altitude", "A box with altitudes, one of them 0.", high),
      bundleVector("own_bundle_hash_no_altitude", "A box whose altitudes are both 0.", flat, {
        delegations: [{ ...certificate, constraints: [BOX] }],
      }),
      receiptVector(),
    ],
  };
}

/**
 * `hashed` contains those members of the bundle whose hashed form differs from the form in which they are
 * sent.
 */
function bundleVector(name: string, description: string, bundle: ProofBundle, hashed: object = {}): object {
  const expected_hash_hex = hash("sha256", independentCanonicalJson({ ...UNBOUND, ...bundle, ...hashed }));
  return { kind: "bundle_hash", name, description, input: { bundle }, expected_hash_hex };
}

function receiptVector(): object {
  const fields = {
    agent_id: "agent\u2028",
    decision: "authorized_agent",
    human_id: "human\u2029",
    verified_at: NOW,
    verifier_id: VERIFIER.id,
    verifier_pub: VERIFIER.publicKey,
    version: 1,
  };
  const signed = independentCanonicalJson({
    ...fields,
    bundle_hash: bytes(4),
    prev_hash: bytes(5),
    granted_scope: ["custom:\ue000", "custom:😀", "meeting:attend"],
  });
  return {
    kind: "verification_receipt_sign_bytes",
    name: "own_verification_receipt_scopes",
    description: "Scopes that sort otherwise by UTF-16 unit than by code point, and line separators.",
    input: {
      ...fields,
      bundle_hash_hex: hexOf(bytes(4)),
      prev_hash_hex: hexOf(bytes(5)),
      granted_scope: ["meeting:attend", "custom:😀", "custom:\ue000"],
    },
    expected_bytes_b64: Buffer.from(signed, "utf8").toString("base64"),
  };
}

function hexOf(base64: string): string {
  return Buffer.from(base64, "base64").toString("hex");
}
