import { uuidv7 } from "uuidv7";
import { type Clock, unixSeconds } from "../clock.ts";
import { ApiError } from "../errors.ts";
import { decodeBase64 } from "../protocol/base64.ts";
import type { CertificateMemory } from "../protocol/certificate_memory.ts";
import { CHALLENGE_WINDOW_SECONDS } from "../protocol/constants.ts";
import { bundleHash, type ProofBundle } from "../protocol/proof_bundle.ts";
import { invalidScopes } from "../protocol/scopes.ts";
import type { Verification } from "../protocol/verification.ts";
import { verifyBundle } from "../protocol/verify.ts";
import type { ApiKeyCaller } from "../route.ts";
import type { Decide } from "./batch.ts";
import { isIssuedBy, readChallenge } from "./challenge.ts";
import type { ChallengeKeys } from "./challenge_keys.ts";
import { type Decision, type DecisionItem, type DecisionOutcome, decideBatch } from "./decision.ts";
import type { VerifyCall } from "./envelope.ts";
import { type CountAllows, isRated, type WithCountedAllows } from "./rates.ts";
import { type ReceiptParts, receiptParts } from "./receipt.ts";
import type { FindRoot, Root } from "./roots.ts";
import { type Verdict, verdictOf } from "./verdict.ts";

/** What verifying needs: the challenge keys, the trusted roots, and the statement that decides. */
export type VerifyDeps = {
  keys: ChallengeKeys;
  findRoot: FindRoot;
  memory: CertificateMemory;
  decide: Decide;
  /** For certificates that limit how often they may be used. */
  withCountedAllows: WithCountedAllows;
  clock: Clock;
};

/** A decision that is recorded, charged and final. */
export type Verified = {
  decision: Decision;
  reason: string;
  receiptHash: Buffer;
  /** What the certificates grant under the ceiling as it is now; empty unless allowed. */
  grantedScope: string[];
  receiptParts: ReceiptParts;
  item: DecisionItem;
  verification: Verification;
};

/** Challenges from clocks that run ahead of this one are still believed when they end this many seconds too late. */
const CLOCK_SKEW_SECONDS = 30;

/**
 * Decides on a proof: challenge, signatures, pure rules, then the one statement that spends, charges and records.
 * Throws `ApiError` when no decision exists; a proof that is merely not allowed is a `deny`, not an error.
 */
export async function verifyProof(
  deps: VerifyDeps,
  caller: ApiKeyCaller,
  call: VerifyCall,
): Promise<Verified> {
  const { bundle, options } = call;
  const now = deps.clock.now();
  if (!isConcreteScope(options.required_scope)) {
    throw new ApiError("invalid_scope", "required_scope: is not a scope, or is a wildcard");
  }
  const challenge = decodeBase64(bundle.challenge);
  const challengeExpiresAt = await checkChallenge(deps.keys, challenge, caller.connectionId, now);
  const input: JudgeInput = { caller, call, challenge, challengeExpiresAt, now, root: undefined };
  const [root, verification] = await Promise.all([
    deps.findRoot(rootOf(bundle).issuer_id),
    applyRules(deps, input, async () => 0),
  ]);
  input.root = root;
  const rated = root ? bundle.delegations.filter(isRated) : [];
  if (root === undefined || rated.length === 0 || !verification.genuine) {
    return completed(await settle(input, verification, deps.decide));
  }
  const counted = rated.map(({ cert_id: certId }) => ({ accountId: root.accountId, certId }));
  const settled = await deps.withCountedAllows(counted, now, async (client, countAllows) => {
    const decideWithin: Decide = async (item) => (await decideBatch(client, [item]))[0] as DecisionOutcome;
    return settle(input, await applyRules(deps, input, countAllows), decideWithin);
  });
  return completed(settled);
}

type JudgeInput = {
  caller: ApiKeyCaller;
  call: VerifyCall;
  challenge: Uint8Array;
  challengeExpiresAt: Date;
  now: Date;
  root: Root | undefined;
};

function applyRules(
  deps: VerifyDeps,
  { call, now }: JudgeInput,
  countAllows: CountAllows,
): Promise<Verification> {
  return verifyBundle(call.bundle, {
    now: unixSeconds(now),
    required_scope: call.options.required_scope,
    context: { ...call.options.context, invocations: countAllows },
    challengeStore: "deferred",
    revocation: "deferred",
    certificateMemory: deps.memory,
  });
}

/** What the statement made of an item, whether that is a decision or not. */
type Settled = Omit<Verified, "decision" | "reason" | "receiptHash" | "grantedScope"> & {
  outcome: DecisionOutcome;
};

/** Lets the statement decide on what the rules found. */
async function settle(input: JudgeInput, verification: Verification, decide: Decide): Promise<Settled> {
  const { caller, call, now, root } = input;
  const { bundle, options } = call;
  const verdict = judge(verification, root, bundle);
  const subject = {
    agentId: bundle.agent_id,
    humanId: rootOf(bundle).issuer_id,
    certId: leafOf(bundle).cert_id,
    requiredScope: options.required_scope,
  };
  const eventId = uuidv7();
  const parts = receiptParts({
    ...subject,
    receiptId: eventId,
    connectionId: caller.connectionId,
    verifierId: caller.verifierId,
    bundleHash: Buffer.from(bundleHash(bundle)).toString("hex"),
    verifiedAt: now,
  });
  const item: DecisionItem = {
    ...subject,
    accountId: caller.accountId,
    connectionId: caller.connectionId,
    challenge: input.challenge,
    challengeExpiresAt: input.challengeExpiresAt,
    decision: verdict.kind,
    reason: verdict.reason,
    certificates: root ? verification.consulted.map((certId) => ({ accountId: root.accountId, certId })) : [],
    eventId,
    decidedAt: now,
    grantedScope: verification.granted_scope ?? [],
    receiptHead: parts.head,
    receiptTail: parts.tail,
  };
  return { outcome: await decide(item), receiptParts: parts, item, verification };
}

/** The decision, once it is committed. Throws the error that stands for there being none. */
function completed({ outcome, ...settled }: Settled): Verified {
  if (outcome.kind === "challenge_spent") throw new ApiError("invalid_challenge");
  if (outcome.kind === "credits_exhausted") throw new ApiError("credits_exhausted");
  const { decision, reason, receiptHash } = outcome;
  const grantedScope = decision === "allow" ? (outcome.grantedScope ?? settled.item.grantedScope) : [];
  return { ...settled, decision, reason, receiptHash, grantedScope };
}

/** Whether a text names one scope: in the vocabulary or custom, no wildcard, nothing the database cannot keep. */
function isConcreteScope(scope: string): boolean {
  return !scope.endsWith(":*") && !scope.includes("\0") && invalidScopes([scope]).length === 0;
}

/** When the challenge ends; throws `invalid_challenge`, alike for unknown, foreign and expired ones. */
async function checkChallenge(
  keys: ChallengeKeys,
  challenge: Uint8Array,
  connectionId: string,
  now: Date,
): Promise<Date> {
  const refused = new ApiError("invalid_challenge");
  const claims = readChallenge(challenge);
  if (!claims) throw refused;
  const secondsLeft = (claims.expiresAt.getTime() - now.getTime()) / 1000;
  if (secondsLeft < 0 || secondsLeft > CHALLENGE_WINDOW_SECONDS + CLOCK_SKEW_SECONDS) throw refused;
  const key = await keys.find(claims.day);
  if (!key || !isIssuedBy(key, challenge, connectionId)) throw refused;
  return claims.expiresAt;
}

/** The verdict of the pure rules, and of trust in the root. A root that nobody here vouches for comes before all else. */
function judge(
  verification: Verification,
  root: Root | undefined,
  bundle: ProofBundle,
): Exclude<Verdict, { kind: "refuse" }> {
  const verdict = verdictOf(verification);
  if (verdict.kind === "refuse") throw new ApiError(verdict.code, verification.error_reason);
  return root && isSameKey(root, bundle) ? verdict : { kind: "deny", reason: "untrusted_root" };
}

function isSameKey(root: Root, bundle: ProofBundle): boolean {
  const { issuer_pub_key: presented } = rootOf(bundle);
  return presented.ed25519 === root.publicKey.ed25519 && presented.ml_dsa_65 === root.publicKey.ml_dsa_65;
}

function leafOf(bundle: ProofBundle): ProofBundle["delegations"][number] {
  return bundle.delegations[0] as ProofBundle["delegations"][number];
}

function rootOf(bundle: ProofBundle): ProofBundle["delegations"][number] {
  return bundle.delegations.at(-1) as ProofBundle["delegations"][number];
}
