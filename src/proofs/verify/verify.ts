import { type Clock, unixSeconds } from "../../clock.ts";
import { ApiError } from "../../errors.ts";
import { newIdAt } from "../../ids.ts";
import { bundleHash, type ProofBundle } from "../../protocol/documents/proof_bundle.ts";
import { isRequirableScope } from "../../protocol/documents/registered_scopes.ts";
import { decodeBase64, encodeBase64 } from "../../protocol/encoding/base64.ts";
import type { CertificateMemory } from "../../protocol/verification/certificate_memory.ts";
import type { Verification } from "../../protocol/verification/evidence.ts";
import { verifyBundle } from "../../protocol/verification/verify.ts";
import type { ApiKeyCaller } from "../../route.ts";
import type { IsAccepted } from "../decide/acceptance.ts";
import type { Decide } from "../decide/batch.ts";
import type { Decided } from "../decide/decided.ts";
import { type DecisionItem, type DecisionOutcome, decideBatch } from "../decide/decision.ts";
import { type CountAllows, isRated, type WithCountedAllows } from "../decide/max_rate.ts";
import { completeReceipt, type Receipt, type ReceiptParts, receiptParts } from "../decide/receipt.ts";
import { checkVerifier, contextOf, type Operation, operationHash, writtenRequestHash } from "../operation.ts";
import type { ChallengeKeys } from "../present/challenge_keys.ts";
import type { ResolveProofRef } from "../present/proof_ref.ts";
import type { VerifyCall } from "./call.ts";
import { checkChallenge } from "./check_challenge.ts";
import { type DecideBound, decideOnce } from "./decide_once.ts";
import type { FindRecorded } from "./invocations.ts";
import type { Refusals } from "./refused_proofs.ts";
import type { Repeats } from "./repeats.ts";
import { isSignedHere } from "./signed_here.ts";
import type { FindRoot, Root } from "./trusted_roots.ts";
import { type Verdict, verdictOf } from "./verdict.ts";

/** What verifying needs. */
export type VerifyDeps = {
  keys: ChallengeKeys;
  findRoot: FindRoot;
  resolveProofRef: ResolveProofRef;
  findRecorded: FindRecorded;
  memory: CertificateMemory;
  decide: Decide;
  /** For certificates that limit how often they may be used. */
  withCountedAllows: WithCountedAllows;
  /** Whether another account's such certificates are to be counted at all. */
  isAccepted: IsAccepted;
  /** What refused proofs may cost. */
  refusals: Refusals;
  /** What decisions that are given again may cost. */
  repeats: Repeats;
  clock: Clock;
};

/**
 * Decides on a proof: challenge, signatures, pure rules, then the one statement that spends, charges and
 * records. An operation that has its decision gets it again. Throws `ApiError` when no decision exists; a
 * proof that is merely not allowed is a `deny`, not an error.
 */
export async function verifyProof(
  deps: VerifyDeps,
  caller: ApiKeyCaller,
  call: VerifyCall,
): Promise<Decided> {
  const { operation, required_scope: requiredScope, context } = call.options;
  if (!isRequirableScope(requiredScope)) {
    throw new ApiError("invalid_scope", "required_scope: is not a scope, or is a wildcard");
  }
  if (operation === undefined) {
    const bundle = await bundleOf(deps, call);
    return decided(await decideNow(deps, { caller, bundle, options: call.options }));
  }
  checkVerifier(operation, caller);
  const bound = {
    caller,
    invocationId: operation.invocation_id,
    operationHash: operationHash({ operation, requiredScope, context }),
  };
  const decideBound: DecideBound = {
    read: () => bundleOf(deps, call),
    async decide(bundle) {
      if (operation.agent_id !== bundle.agent_id) {
        throw new ApiError("session_context_mismatch", "operation.agent_id: is another agent");
      }
      const sessionContext = encodeBase64(contextOf(operation, requiredScope));
      const binding = { sessionContext, operation, operationHash: bound.operationHash };
      const settled = await decideNow(deps, { caller, bundle, options: call.options, binding });
      return settled.outcome.kind === "invocation_taken" ? undefined : decided(settled);
    },
  };
  return deps.repeats.guard(bound, () => decideOnce(deps.findRecorded, bound, decideBound));
}

/** The proof's bundle. Throws `invalid_proof` also when it is another agent's than the call says. */
async function bundleOf({ resolveProofRef }: VerifyDeps, call: VerifyCall): Promise<ProofBundle> {
  const proof = call.readProof();
  const bundle = "bundle" in proof ? proof.bundle : await resolveProofRef(proof.ref);
  if (bundle === undefined) throw new ApiError("invalid_proof", "proof_ref: names no certificate");
  if (call.agentId !== undefined && call.agentId !== bundle.agent_id) {
    throw new ApiError("invalid_proof", "agent_id: is another agent");
  }
  return bundle;
}

/** What a proof must be bound to. */
type Binding = { sessionContext: string; operation: Operation; operationHash: Buffer };

type Asked = {
  caller: ApiKeyCaller;
  bundle: ProofBundle;
  options: VerifyCall["options"];
  binding?: Binding;
};

/** Decides on a proof, unless too many were refused here before. */
function decideNow(deps: VerifyDeps, asked: Asked): Promise<Settled> {
  return deps.refusals.guard(asked.caller, {
    agentId: asked.bundle.agent_id,
    isSigned: () => isSignedHere(deps, asked),
    async work() {
      const result = await decideUnguarded(deps, asked);
      refuseUndecided(result.outcome);
      return { result, allowed: result.outcome.kind === "decided" && result.outcome.decision === "allow" };
    },
  });
}

async function decideUnguarded(deps: VerifyDeps, asked: Asked): Promise<Settled> {
  const { bundle, caller } = asked;
  const now = deps.clock.now();
  const challenge = decodeBase64(bundle.challenge);
  const challengeExpiresAt = await checkChallenge(deps.keys, challenge, caller.connectionId, now);
  const input: JudgeInput = { ...asked, challenge, challengeExpiresAt, now, root: undefined };
  const [found, verification] = await Promise.all([
    deps.findRoot(rootOf(bundle).issuer_id),
    applyRules(deps, input, async () => 0),
  ]);
  const root = trustedRoot(found, bundle);
  input.root = root;
  const rated = root ? bundle.delegations.filter(isRated) : [];
  if (root === undefined || rated.length === 0 || !verification.genuine) {
    return settle(deps, input, verification);
  }
  const byOwner = root.accountId === caller.accountId;
  if (!byOwner && !(await isAccepted(deps, input))) {
    return settle(deps, { ...input, isRefused: true }, verification);
  }
  const certificates = rated.map(({ cert_id: certId }) => ({ accountId: root.accountId, certId }));
  return deps.withCountedAllows({ certificates, byOwner, now }, async (client, countAllows) => {
    const decideWithin: Decide = async (item) => (await decideBatch(client, [item]))[0] as DecisionOutcome;
    return settle({ ...deps, decide: decideWithin }, input, await applyRules(deps, input, countAllows));
  });
}

type JudgeInput = Asked & {
  challenge: Uint8Array;
  challengeExpiresAt: Date;
  now: Date;
  /** The known root whose very key the chain carries. */
  root: Root | undefined;
  /**
   * That root was looked up and is not accepted: its certificates were not counted, so nothing is allowed by
   * them.
   */
  isRefused?: boolean;
};

/** Whether the root of another account is accepted, before its certificates are waited for. */
function isAccepted(deps: VerifyDeps, { caller, bundle, options, now }: JudgeInput): Promise<boolean> {
  return deps.isAccepted({
    connectionId: caller.connectionId,
    humanId: rootOf(bundle).issuer_id,
    scope: options.required_scope,
    at: now,
  });
}

function applyRules(
  deps: VerifyDeps,
  { bundle, options, binding, now }: JudgeInput,
  countAllows: CountAllows,
): Promise<Verification> {
  return verifyBundle(bundle, {
    now: unixSeconds(now),
    required_scope: options.required_scope,
    session_context: binding?.sessionContext,
    context: { ...options.context, invocations: countAllows },
    challengeStore: "deferred",
    revocation: "deferred",
    certificateMemory: deps.memory,
  });
}

/** What the statement made of an item, whether that is a decision or not. */
type Settled = {
  outcome: DecisionOutcome;
  receiptParts: ReceiptParts;
  item: DecisionItem;
  verification: Verification;
};

/** Lets the statement decide on what the rules found. */
async function settle(
  { decide, memory }: Pick<VerifyDeps, "decide" | "memory">,
  input: JudgeInput,
  verification: Verification,
): Promise<Settled> {
  const { caller, bundle, options, binding, now, root, isRefused = false } = input;
  const verdict = judge(verification, input);
  const subject = {
    agentId: bundle.agent_id,
    humanId: rootOf(bundle).issuer_id,
    certId: leafOf(bundle).cert_id,
    requiredScope: options.required_scope,
  };
  const eventId = newIdAt(now);
  const parts = receiptParts({
    ...subject,
    receiptId: eventId,
    connectionId: caller.connectionId,
    verifierId: caller.verifierId,
    bundleHash: Buffer.from(bundleHash(bundle, memory.recent)).toString("hex"),
    verifiedAt: now,
    operation: binding && {
      invocation_id: binding.operation.invocation_id,
      request_hash: writtenRequestHash(binding.operation),
      action_profile: binding.operation.action_profile || undefined,
    },
  });
  const item: DecisionItem = {
    ...subject,
    accountId: caller.accountId,
    connectionId: caller.connectionId,
    challenge: input.challenge,
    challengeExpiresAt: input.challengeExpiresAt,
    decision: verdict.kind,
    reason: verdict.reason,
    errorReason: root === undefined || isRefused ? verdict.reason : (verification.error_reason ?? null),
    invocation: binding
      ? { id: binding.operation.invocation_id, operationHash: binding.operationHash }
      : null,
    rootAccountId: root?.accountId ?? null,
    certificates:
      root && !isRefused
        ? verification.consulted.map((certId) => ({ accountId: root.accountId, certId }))
        : [],
    eventId,
    decidedAt: now,
    grantedScope: verification.granted_scope ?? [],
    receiptHead: parts.head,
    receiptTail: parts.tail,
  };
  return { outcome: await decide(item), receiptParts: parts, item, verification };
}

/** Throws the error that stands for there being no decision, unless the invocation has one. */
function refuseUndecided({ kind }: DecisionOutcome): void {
  if (kind === "credits_exhausted") throw new ApiError("credits_exhausted");
  if (kind !== "decided" && kind !== "invocation_taken") throw new ApiError("invalid_challenge");
}

/** The decision, once it is committed. Throws `invalid_challenge` when there is none. */
function decided({ outcome, receiptParts: parts, item, verification }: Settled): Decided {
  if (outcome.kind !== "decided") throw new ApiError("invalid_challenge");
  const { decision, reason, receiptHash } = outcome;
  const grantedScope = decision === "allow" ? (outcome.grantedScope ?? item.grantedScope) : [];
  return {
    decision,
    reason,
    errorReason: reason === item.reason ? item.errorReason : reason,
    receipt: JSON.parse(completeReceipt(parts, { decision, reason, grantedScope })) as Receipt,
    receiptHash,
    replayed: false,
    checks: verification.checks,
  };
}

/**
 * The verdict of the pure rules, and of trust in the root. A root that nobody here vouches for comes before
 * all else.
 */
function judge(
  verification: Verification,
  { root, isRefused }: JudgeInput,
): Exclude<Verdict, { kind: "refuse" }> {
  const verdict = verdictOf(verification);
  if (verdict.kind === "refuse") throw new ApiError(verdict.code, verification.error_reason);
  if (root === undefined) return { kind: "deny", reason: "untrusted_root" };
  return isRefused ? { kind: "deny", reason: "principal_not_accepted" } : verdict;
}

/** The known root, when the chain carries that root's very key. */
function trustedRoot(root: Root | undefined, bundle: ProofBundle): Root | undefined {
  const { issuer_pub_key: presented } = rootOf(bundle);
  const isSame =
    presented.ed25519 === root?.publicKey.ed25519 && presented.ml_dsa_65 === root.publicKey.ml_dsa_65;
  return isSame ? root : undefined;
}

function leafOf(bundle: ProofBundle): ProofBundle["delegations"][number] {
  return bundle.delegations[0] as ProofBundle["delegations"][number];
}

function rootOf(bundle: ProofBundle): ProofBundle["delegations"][number] {
  return bundle.delegations.at(-1) as ProofBundle["delegations"][number];
}
