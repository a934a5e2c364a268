import { LRUCache } from "lru-cache";
import { unixSeconds } from "../../clock.ts";
import { atMost } from "../../concurrency/at_most.ts";
import type { Database } from "../../db/database.ts";
import { ApiError, type ErrorCode } from "../../errors.ts";
import { newIdAt } from "../../ids.ts";
import type { CertificateMemory } from "../../protocol/documents/certificate_memory.ts";
import { bundleHash, type ProofBundle, rootCertificate } from "../../protocol/documents/proof_bundle.ts";
import { canonicalJson } from "../../protocol/encoding/canonical.ts";
import { equalPublicKeys, type HybridPublicKey } from "../../protocol/keys/hybrid.ts";
import type { Verification } from "../../protocol/verification/evidence.ts";
import type { ViolationCode } from "../../protocol/violations.ts";
import type { SecretBox } from "../../secret_box.ts";
import { traceparent } from "../../trace_context.ts";
import type { DecisionItem } from "../decide/decision_item.ts";
import { receiptParts } from "../decide/decision_receipt.ts";
import { explain } from "../decide/explanation.ts";
import { DENIALS, type DenyReason } from "../decide/reasons.ts";
import { namedActionHash, operationHash, writtenRequestHash } from "../operation.ts";
import type { OpenChallenge } from "../present/challenge.ts";
import type { VerifyCall } from "./call.ts";

/** A trusted root: the root key of one of this service's accounts. */
type Root = { accountId: string; publicKey: HybridPublicKey };

/** Finds the account whose root key signed a bundle's root certificate, or `undefined` if there is none. */
export type FindRoot = (bundle: ProofBundle) => Promise<Root | undefined>;

/** Format of every key id. Any other string belongs to no account, so it is not looked up. */
const KEY_ID = /^[0-9a-f]{32}$/;
const REMEMBERED_ROOTS = 10_000;

/** Creates a finder that caches only roots that exist. An account may create an unknown key at any time. */
export function createRootFinder(db: Database): FindRoot {
  const roots = new LRUCache<string, Root>({
    ...atMost(REMEMBERED_ROOTS),
    fetchMethod: async (humanId) => {
      const row = await db("accounts")
        .select("account_id", "root_public_key")
        .where({ human_id: humanId })
        .first();
      return row?.root_public_key ? { accountId: row.account_id, publicKey: row.root_public_key } : undefined;
    },
  });
  return async (bundle) => {
    const { issuer_id: humanId, issuer_pub_key: key } = rootCertificate(bundle);
    const found = KEY_ID.test(humanId) ? await roots.fetch(humanId) : undefined;
    return found !== undefined && equalPublicKeys(key, found.publicKey) ? found : undefined;
  };
}

type Examined = {
  bundle: ProofBundle;
  challenge: OpenChallenge;
  now: Date;
  root: Root | undefined;
  verification: Verification;
  isAccepted: boolean;
};

/** Dependencies of evaluating a proof. `secretBox` hashes the values that an explanation must not contain. */
export type JudgeDeps = { memory: CertificateMemory; secretBox: Pick<SecretBox, "mac"> };

/** Evaluates a proof, and returns the item to decide. Throws `ApiError` for a proof that is not genuine. */
export function judge(
  { caller, options }: VerifyCall,
  examined: Examined,
  { memory, secretBox }: JudgeDeps,
): DecisionItem {
  const { bundle, challenge, now, root, verification } = examined;
  const { operation, required_scope: requiredScope, context } = options;
  const subject = {
    agentId: bundle.agent_id,
    humanId: rootCertificate(bundle).issuer_id,
    certId: bundle.delegations[0]?.cert_id ?? "",
    requiredScope,
  };
  const verdict = verdictOf(examined);
  const explanation =
    verdict.decision === "allow"
      ? null
      : explain(
          {
            reason: verdict.reason,
            chain: bundle.delegations,
            verification,
            context: context ?? {},
            now: unixSeconds(now),
          },
          {
            values: caller.explanationValues,
            mac: (fact, value) => secretBox.mac(value, `explanation/${caller.connectionId}/${fact}`),
          },
        );
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
    ...verdict,
    explanation: explanation && canonicalJson(explanation),
    accountId: caller.accountId,
    connectionId: caller.connectionId,
    customerAccountId: caller.isCustomer ? caller.principalAccountId : null,
    challenge: challenge.bytes,
    challengeExpiresAt: challenge.expiresAt,
    invocation: operation
      ? {
          id: operation.invocation_id,
          operationHash: operationHash({ operation, requiredScope, context }),
        }
      : null,
    action: operation ? namedActionHash(operation) : null,
    rootAccountId: root?.accountId ?? null,
    eventId,
    decidedAt: now,
    grantedScope: verification.granted_scope ?? [],
    receiptHead: head,
    receiptTail: tail,
    traceparent: traceparent() ?? null,
  };
}

type Verdict = Pick<DecisionItem, "errorReason" | "certificates"> &
  ({ decision: "allow"; reason: "authorized" } | { decision: "deny"; reason: DenyReason });

/**
 * Returns the verdict on a genuine proof: a denial if the proof violates a rule. A root that is unknown
 * or not accepted is denied first, without reading any certificate's state. Throws `ApiError` for a forged,
 * malformed or stale proof, which spends nothing.
 */
function verdictOf({ root, verification, isAccepted }: Examined): Verdict {
  const { violation, genuine, error_reason: errorReason = null, consulted } = verification;
  const denial = violation && denialOf(violation.code);
  if (violation !== undefined && (!genuine || denial === undefined)) {
    throw new ApiError(refusalOf(violation.code), verification.error_reason);
  }
  if (root === undefined || !isAccepted) {
    const reason = root === undefined ? "untrusted_root" : "principal_not_accepted";
    return { decision: "deny", reason, errorReason: reason, certificates: [] };
  }
  const certificates = consulted.map((certId) => ({ accountId: root.accountId, certId }));
  return denial === undefined
    ? { decision: "allow", reason: "authorized", errorReason, certificates }
    : { decision: "deny", reason: denial, errorReason, certificates };
}

function denialOf(code: ViolationCode): DenyReason | undefined {
  return Object.hasOwn(DENIALS, code) ? DENIALS[code as keyof typeof DENIALS] : undefined;
}

const CONTEXT_FAULTS: readonly ViolationCode[] = [
  "session_context_mismatch",
  "missing_session_context",
  "session_context_unverifiable",
];

function refusalOf(code: ViolationCode): ErrorCode {
  if (code === "unknown_challenge") return "invalid_challenge";
  return CONTEXT_FAULTS.includes(code) ? "session_context_mismatch" : "invalid_proof";
}
