import { hash } from "node:crypto";
import { independentCanonicalJson } from "../support/canonical_oracle.ts";
import { NOW } from "./verify_cases.ts";

/**
 * Returns a receipt of the service that contains both Unicode line separators. Adds its canonical JSON, the
 * hash of that, and the different text that plain RFC 8785 produces.
 */
export function receiptVector(): object {
  const receipt = {
    agent_id: "b4a4c71795d676b69f454881a83009b2",
    bundle_hash: "04".repeat(32),
    cert_id: "cert-00000000-0000-4000-8000-000000000000",
    connection_id: "00000000-0000-7000-8000-000000000001",
    decision: "allow",
    decision_reason: "authorized",
    granted_scope: ["custom:a\u2028b", "data:read"],
    human_id: "92cb0a15572d7a71ed72bbc8dcdfb6b6",
    invocation_id: "order\u2028line\u2029/<é😀>",
    receipt_id: "00000000-0000-7000-8000-000000000002",
    request_hash: "05".repeat(32),
    required_scope: "custom:a\u2028b",
    verified_at: new Date(NOW * 1000).toISOString(),
    verifier_id: "verifier\u2029",
    version: 1,
  };
  const canonical = independentCanonicalJson(receipt);
  return {
    description: "Line separators are escaped in the canonical JSON of a receipt, and are not in RFC 8785.",
    receipt,
    canonical,
    receipt_hash: `sha256:${hash("sha256", canonical)}`,
    rfc_8785: JSON.stringify(receipt),
  };
}
