import { canonicalJson } from "../protocol/canonical.ts";

/** What a verification receipt says besides the decision itself. */
export type ReceiptFields = {
  receiptId: string;
  connectionId: string;
  verifierId: string;
  agentId: string;
  humanId: string;
  certId: string;
  requiredScope: string;
  /** What the chain grants; recorded with an allow only. */
  grantedScope: readonly string[];
  /** SHA-256 of the canonical bundle, hex. */
  bundleHash: string;
  verifiedAt: Date;
};

/** A receipt's canonical JSON on both sides of its decision; the tail differs with the decision. */
export type ReceiptParts = { head: string; tailAllow: string; tailOther: string };

/**
 * The receipt's canonical JSON (RFC 8785), cut where the decision goes: the statement that decides fills it in,
 * `head ‖ "decision":"…","decision_reason":"…" ‖ tail`. All keys before the cut sort before `decision`, all after it
 * sort after `decision_reason`.
 */
export function receiptParts(fields: ReceiptFields): ReceiptParts {
  const head = canonicalJson({
    agent_id: fields.agentId,
    bundle_hash: fields.bundleHash,
    cert_id: fields.certId,
    connection_id: fields.connectionId,
  });
  const tail = (grantedScope: readonly string[]) =>
    canonicalJson({
      granted_scope: [...grantedScope],
      human_id: fields.humanId,
      receipt_id: fields.receiptId,
      required_scope: fields.requiredScope,
      verified_at: fields.verifiedAt.toISOString(),
      verifier_id: fields.verifierId,
      version: 1,
    });
  return {
    head: `${head.slice(0, -1)},`,
    tailAllow: `,${tail(fields.grantedScope).slice(1)}`,
    tailOther: `,${tail([]).slice(1)}`,
  };
}

/** The whole receipt as text, with the decision filled in as the deciding statement does. */
export function completeReceipt(parts: ReceiptParts, decision: string, reason: string): string {
  const tail = decision === "allow" ? parts.tailAllow : parts.tailOther;
  return `${parts.head}"decision":"${decision}","decision_reason":"${reason}"${tail}`;
}
