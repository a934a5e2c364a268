import { ApiError, type ErrorCode } from "../../errors.ts";
import { newIdAt } from "../../ids.ts";
import type { CertificateMemory } from "../../protocol/documents/certificate_memory.ts";
import { bundleHash, type ProofBundle, rootCertificate } from "../../protocol/documents/proof_bundle.ts";
import type { Verification } from "../../protocol/verification/evidence.ts";
import { traceparent } from "../../trace_context.ts";
import type { Decided, DecisionOutcome } from "../decide/decision.ts";
import type { DecisionItem } from "../decide/decision_item.ts";
import { type Receipt, receiptParts } from "../decide/decision_receipt.ts";
import { operationHash, writtenRequestHash } from "../operation.ts";
import type { OpenChallenge } from "../present/challenge.ts";
import type { VerifyCall } from "./call.ts";
import { DENIALS, type DenyReason } from "./reasons.ts";
import type { Root } from "./trusted_roots.ts";

/** A genuine proof that the rules have judged. */
type Judged = {
  bundle: ProofBundle;
  challenge: OpenChallenge;
  now: Date;
  verdict: Exclude<Verdict, { kind: "refuse" }>;
  /** Why it is not allowed, in the protocol's words where its rules decided; null when it is. */
  errorReason: string | null;
  grantedScope: string[];
  /** The account whose root key begins the chain; null when that is no account's. */
  rootAccountId: string | null;
  /** Certificates whose stored state has a say before the verdict does. */
  consulted: { accountId: string; certId: string }[];
};

/**
 * Judges what was found of a proof. A root that nobody here vouches for, or that is not accepted, is the
 * answer before all else; then the state of no certificate is read. Throws for a proof that is not genuine.
 */
export function judge(proof: {
  bundle: ProofBundle;
  challenge: OpenChallenge;
  now: Date;
  root: Root | undefined;
  verification: Verification;
  isAccepted: boolean;
}): Judged {
  const { bundle, challenge, now, root, verification, isAccepted } = proof;
  const found = verdictOf(verification);
  if (found.kind === "refuse") throw new ApiError(found.code, verification.error_reason);
  const common = {
    bundle,
    challenge,
    now,
    grantedScope: verification.granted_scope ?? [],
    rootAccountId: root?.accountId ?? null,
  };
  if (root === undefined || !isAccepted) {
    const reason = root === undefined ? "untrusted_root" : "principal_not_accepted";
    return { ...common, verdict: { kind: "deny", reason }, errorReason: reason, consulted: [] };
  }
  return {
    ...common,
    verdict: found,
    errorReason: verification.error_reason ?? null,
    consulted: verification.consulted.map((certId) => ({ accountId: root.accountId, certId })),
  };
}

/** What the protocol's first violation means to a verify call. */
type Verdict =
  | { kind: "allow"; reason: "authorized" }
  | { kind: "deny"; reason: DenyReason }
  | {
      kind: "refuse";
      code: Extract<ErrorCode, "invalid_proof" | "invalid_challenge" | "session_context_mismatch">;
    };

const contextFaults = new Set([
  "session_context_mismatch",
  "missing_session_context",
  "session_context_unverifiable",
]);

/**
 * Maps the protocol's outcome: a genuine proof that violates a rule is a denial, and spends its challenge; a
 * forged, malformed or stale one is a refused call, and spends nothing.
 */
function verdictOf(outcome: { violation?: { code: string } | undefined; genuine: boolean }): Verdict {
  const { violation, genuine } = outcome;
  if (violation === undefined) return { kind: "allow", reason: "authorized" };
  const reason: DenyReason | undefined = DENIALS[violation.code as keyof typeof DENIALS];
  if (genuine && reason !== undefined) return { kind: "deny", reason };
  if (violation.code === "unknown_challenge") return { kind: "refuse", code: "invalid_challenge" };
  if (contextFaults.has(violation.code)) return { kind: "refuse", code: "session_context_mismatch" };
  return { kind: "refuse", code: "invalid_proof" };
}

/** What the statement is to decide about a judged proof. */
export function itemOf(
  { caller, options }: VerifyCall,
  judged: Judged,
  memory: CertificateMemory,
): DecisionItem {
  const { bundle, challenge, now, rootAccountId, consulted, verdict, errorReason, grantedScope } = judged;
  const { operation, required_scope: requiredScope, context } = options;
  const subject = {
    agentId: bundle.agent_id,
    humanId: rootCertificate(bundle).issuer_id,
    certId: bundle.delegations[0]?.cert_id ?? "",
    requiredScope,
  };
  const eventId = newIdAt(now);
  const { head, tail } = receiptParts({
    ...subject,
    receiptId: eventId,
    connectionId: caller.connectionId,
    verifierId: caller.verifierId,
    bundleHash: Buffer.from(bundleHash(bundle, memory.recent)).toString("hex"),
    verifiedAt: now,
    operation: operation && {
      invocation_id: operation.invocation_id,
      request_hash: writtenRequestHash(operation),
      action_profile: operation.action_profile || undefined,
    },
  });
  return {
    ...subject,
    accountId: caller.accountId,
    connectionId: caller.connectionId,
    challenge: challenge.bytes,
    challengeExpiresAt: challenge.expiresAt,
    decision: verdict.kind,
    reason: verdict.reason,
    errorReason,
    invocation: operation
      ? {
          id: operation.invocation_id,
          operationHash: operationHash({ operation, requiredScope, context }),
        }
      : null,
    rootAccountId,
    certificates: consulted,
    eventId,
    decidedAt: now,
    grantedScope,
    receiptHead: head,
    receiptTail: tail,
    traceparent: traceparent() ?? null,
  };
}

/**
 * The decision, once it is committed; nothing when the operation has one already. Throws the error that says
 * why there is none.
 */
export function decidedOf(item: DecisionItem, outcome: DecisionOutcome): Decided | undefined {
  if (outcome.kind === "invocation_taken") return undefined;
  if (outcome.kind === "credits_exhausted") throw new ApiError("credits_exhausted");
  if (outcome.kind === "challenge_spent") throw new ApiError("invalid_challenge");
  const { decision, reason, receipt, receiptHash } = outcome;
  return {
    decision,
    reason,
    errorReason: reason === item.reason ? item.errorReason : reason,
    receipt: JSON.parse(receipt) as Receipt,
    receiptHash,
    replayed: false,
  };
}
