import { ApiError } from "../../errors.ts";
import { newIdAt } from "../../ids.ts";
import { bundleHash } from "../../protocol/documents/proof_bundle.ts";
import type { CertificateMemory } from "../../protocol/verification/certificate_memory.ts";
import { traceparent } from "../../trace_context.ts";
import type { Decided, DecisionOutcome } from "../decide/decision.ts";
import type { DecisionItem } from "../decide/decision_item.ts";
import { type Receipt, receiptParts } from "../decide/decision_receipt.ts";
import { operationHash, writtenRequestHash } from "../operation.ts";
import type { VerifyCall } from "./call.ts";
import { rootOf } from "./trusted_roots.ts";
import type { Judged } from "./verdict.ts";

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
    humanId: rootOf(bundle).issuer_id,
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
