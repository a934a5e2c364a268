import type { Explanation } from "../../db/tables.ts";
import { canonicalJson } from "../../protocol/encoding/canonical.ts";
import type { Decision, Reason } from "./reasons.ts";

/** Fields of a verification receipt, except the decision. */
export type ReceiptFields = {
  receiptId: string;
  connectionId: string;
  verifierId: string;
  agentId: string;
  humanId: string;
  certId: string;
  requiredScope: string;
  /** The operation that the proof is bound to. Absent if the proof is not bound. */
  operation?:
    | { invocation_id: string; request_hash: string; action_profile?: string | undefined }
    | undefined;
  /** SHA-256 of the canonical bundle, in hex, as `bundleHash` computes it. */
  bundleHash: string;
  verifiedAt: Date;
};

/** A receipt as stored and returned: the verifier, the agent, the requested scope, and the decision. */
export type Receipt = {
  action_profile?: string;
  agent_id: string;
  bundle_hash: string;
  cert_id: string;
  connection_id: string;
  decision: Decision;
  decision_reason: Reason;
  explanation?: Explanation;
  granted_scope: string[];
  human_id: string;
  invocation_id?: string;
  receipt_id: string;
  request_hash?: string;
  required_scope: string;
  verified_at: string;
  verifier_id: string;
  version: 1;
};

/** The parts of a receipt's canonical JSON before the decision and after the granted scopes. */
export type ReceiptParts = { head: string; tail: string };

/**
 * Returns the receipt's canonical JSON, split where the decision belongs. The encoding is RFC 8785, except
 * that U+2028 and U+2029 are escaped (wire format §3). The deciding statement joins the parts: `head ‖
 * "decision":"…","decision_reason":"…","explanation":{…},"granted_scope":[…] ‖ tail`, where only some denials
 * have an explanation. All keys of the head sort before `decision`, and all keys of the tail sort after
 * `granted_scope`.
 */
export function receiptParts(fields: ReceiptFields): ReceiptParts {
  const head = canonicalJson({
    action_profile: fields.operation?.action_profile,
    agent_id: fields.agentId,
    bundle_hash: fields.bundleHash,
    cert_id: fields.certId,
    connection_id: fields.connectionId,
  });
  const tail = canonicalJson({
    human_id: fields.humanId,
    invocation_id: fields.operation?.invocation_id,
    receipt_id: fields.receiptId,
    request_hash: fields.operation?.request_hash,
    required_scope: fields.requiredScope,
    verified_at: fields.verifiedAt.toISOString(),
    verifier_id: fields.verifierId,
    version: 1,
  });
  return { head: `${head.slice(0, -1)},`, tail: `,${tail.slice(1)}` };
}
