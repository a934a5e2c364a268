import { ALGORITHMS } from "./algorithms.ts";
import { decodeBase64 } from "./base64.ts";
import type { DelegationCert } from "./certificate.ts";
import {
  BINDING_BYTES,
  CHALLENGE_WINDOW_SECONDS,
  MAX_DELEGATION_CHAIN_DEPTH,
  PROTOCOL_VERSION,
} from "./constants.ts";
import { ProtocolError } from "./errors.ts";
import { equalPublicKeys } from "./hybrid.ts";
import { intersectScopes, invalidScopes } from "./scopes.ts";
import type { Evidence } from "./verification.ts";
import type { Violation, ViolationCode } from "./violations.ts";

/** Whether a rule asks if the evidence is good, or if good evidence is allowed what it asks for. */
export type RuleKind = "evidence" | "permission";

/** One named rule about the bundle as a whole. Pure. */
export interface BundleRule {
  name: string;
  kind: RuleKind;
  check(evidence: Evidence): Violation | undefined;
}

/** One named rule about each certificate, with the one that issued it; the root has none. Pure. */
export interface CertificateRule {
  name: string;
  kind: RuleKind;
  check(evidence: Evidence, position: CertificatePosition): Violation | undefined;
}

/** A certificate where it stands in its chain. */
export interface CertificatePosition {
  index: number;
  certificate: DelegationCert;
  parent: DelegationCert | undefined;
}

/** Scope that a certificate must grant by name for its subject to issue further ones. */
export const DELEGATE_SCOPE = "identity:delegate";

/** Steps 1 to 5 of wire format §8. */
export const OPENING_RULES: readonly BundleRule[] = [
  {
    name: "structure",
    kind: "evidence",
    check: ({ bundle }) => {
      if (bundle.delegations.length === 0) return fault("no_delegations", "bundle contains no delegations");
      if (bundle.delegations.length > MAX_DELEGATION_CHAIN_DEPTH) {
        return fault("chain_too_deep", "delegation chain exceeds maximum depth");
      }
      return hasBytes(bundle.challenge, BINDING_BYTES)
        ? undefined
        : fault("no_challenge", "bundle contains no challenge of 32 bytes");
    },
  },
  {
    name: "session_context",
    kind: "evidence",
    check: ({ bundle: { session_context: presented }, options: { session_context: own } }) => {
      if (![presented, own].every((value) => value === undefined || hasBytes(value, BINDING_BYTES))) {
        return fault("invalid_session_context", "session_context is not 32 bytes");
      }
      if (presented === own) return undefined;
      if (presented === undefined) {
        return fault("missing_session_context", "bundle has no session_context but verifier requires one");
      }
      return own === undefined
        ? fault(
            "session_context_unverifiable",
            "bundle has session_context but verifier did not provide a session context",
          )
        : fault("session_context_mismatch", "bundle session_context does not match verifier context");
    },
  },
  {
    name: "challenge_known",
    kind: "evidence",
    check: ({ facts }) => (facts.challengeKnown === false ? unknownChallenge() : undefined),
  },
  { name: "stream", kind: "evidence", check: checkStream },
  {
    name: "agent_key",
    kind: "evidence",
    check: ({ bundle: { agent_id, agent_pub_key, delegations } }) => {
      const leaf = delegations[0];
      if (
        !hasBytes(agent_pub_key.ed25519, ALGORITHMS.ed25519.publicKeyBytes) ||
        !hasBytes(agent_pub_key.ml_dsa_65, ALGORITHMS.ml_dsa_65.publicKeyBytes)
      ) {
        return fault("invalid_agent_key", "agent public key has a wrong length");
      }
      if (leaf === undefined || !equalPublicKeys(agent_pub_key, leaf.subject_pub_key)) {
        return fault("key_mismatch", "agent public key does not match delegation subject");
      }
      return agent_id === leaf.subject_id
        ? undefined
        : fault("id_mismatch", "agent id does not match delegation subject");
    },
  },
];

/** The part of step 6 of wire format §8 that comes before the constraints, for each certificate. */
export const CERTIFICATE_RULES: readonly CertificateRule[] = [
  {
    name: "version",
    kind: "evidence",
    check: (_, { certificate: { version }, index }) =>
      version === PROTOCOL_VERSION
        ? undefined
        : fault("version_mismatch", `cert ${index} has version ${version}`, index),
  },
  {
    name: "vocabulary",
    kind: "evidence",
    check: (_, { certificate: { scope }, index }) => {
      const [invalid] = invalidScopes(scope);
      return invalid === undefined
        ? undefined
        : fault("invalid_scope", `cert ${index}: unknown scope ${JSON.stringify(invalid)}`, index);
    },
  },
  {
    name: "not_expired",
    kind: "permission",
    check: ({ options: { now } }, { certificate: { expires_at }, index }) =>
      now <= expires_at ? undefined : fault("expired", "delegation certificate has expired", index),
  },
  {
    name: "already_valid",
    kind: "permission",
    check: ({ options: { now } }, { certificate: { issued_at }, index }) =>
      now >= issued_at ? undefined : fault("not_yet_valid", `cert ${index} is not yet valid`, index),
  },
  {
    name: "not_revoked",
    kind: "permission",
    check: ({ facts }, { index }) => {
      const state = facts.revocation[index];
      if (state === "revoked") return fault("revoked", `cert ${index} has been revoked`, index);
      return state === "unavailable"
        ? fault("revocation_error", `cert ${index}: revocation state is not available`, index)
        : undefined;
    },
  },
  {
    name: "signature",
    kind: "evidence",
    check: ({ facts }, { index }) => {
      const wrong = facts.signatureFaults[index];
      return wrong === undefined ? undefined : fault("bad_signature", `cert ${index}: ${wrong}`, index);
    },
  },
];

/** Whether each certificate's constraints hold: within step 6 of §8 without a challenge store, at step 8 with one. */
export const CONSTRAINT_RULE: CertificateRule = {
  name: "constraints",
  kind: "permission",
  check: ({ facts }, { index }) => {
    const refusal = facts.refusals[index];
    return refusal === undefined ? undefined : fault(refusal.code, `cert ${index}: ${refusal.detail}`, index);
  },
};

/** The rest of step 6 of wire format §8, between each certificate and the one above it. */
export const LINK_RULES: readonly CertificateRule[] = [
  {
    name: "link",
    kind: "evidence",
    check: (_, { certificate, parent, index }) => {
      if (parent === undefined) return undefined;
      if (certificate.issuer_id !== parent.subject_id) {
        return fault(
          "broken_chain",
          `cert ${index} was not issued by the subject of cert ${index + 1}`,
          index,
        );
      }
      return equalPublicKeys(certificate.issuer_pub_key, parent.subject_pub_key)
        ? undefined
        : fault("broken_chain_keys", `cert ${index} has another issuer key than cert ${index + 1}`, index);
    },
  },
  {
    name: "delegation_right",
    kind: "permission",
    check: (_, { parent, index }) =>
      parent === undefined || parent.scope.includes(DELEGATE_SCOPE)
        ? undefined
        : fault("delegation_not_authorized", `cert ${index + 1} does not grant ${DELEGATE_SCOPE}`, index + 1),
  },
];

/** Step 7 of wire format §8, and the spending of step 8. */
export const CHALLENGE_RULES: readonly BundleRule[] = [
  {
    name: "challenge_freshness",
    kind: "evidence",
    check: ({ bundle, options }) => {
      const age = options.now - bundle.challenge_at;
      return age >= 0 && age <= CHALLENGE_WINDOW_SECONDS
        ? undefined
        : fault("stale_challenge", `challenge is ${age} seconds old (max ${CHALLENGE_WINDOW_SECONDS})`);
    },
  },
  {
    name: "challenge_signature",
    kind: "evidence",
    check: ({ facts: { challengeFault } }) =>
      challengeFault === undefined
        ? undefined
        : fault("bad_challenge_sig", `challenge signature verification failed: ${challengeFault}`),
  },
  {
    name: "challenge_spent",
    kind: "evidence",
    check: ({ facts }) => (facts.challengeSpent === false ? unknownChallenge() : undefined),
  },
];

/** Step 9 of wire format §8. */
export const SCOPE_RULE: BundleRule = {
  name: "required_scope",
  kind: "permission",
  check: ({ bundle, options: { required_scope } }) =>
    required_scope === undefined || effectiveScope(bundle.delegations).includes(required_scope)
      ? undefined
      : fault(
          "scope_denied",
          `required scope ${JSON.stringify(required_scope)} not in effective delegation scope`,
        ),
};

/** What a whole chain grants, sorted by code point (wire format §6). */
export function effectiveScope(chain: readonly DelegationCert[]): string[] {
  return intersectScopes(...chain.map(({ scope }) => scope));
}

function checkStream({ bundle, options: { stream } }: Evidence): Violation | undefined {
  const { stream_id, stream_seq } = bundle;
  if (stream_id === undefined && stream_seq === undefined) {
    return stream === undefined
      ? undefined
      : fault("missing_stream_context", "bundle has no stream_id but verifier requires one");
  }
  if (stream_id === undefined || !hasBytes(stream_id, BINDING_BYTES)) {
    return fault("invalid_stream_id", "stream_id is not 32 bytes");
  }
  if (stream_seq === undefined || stream_seq < 1) {
    return fault("invalid_stream_seq", "stream_seq is not at least 1");
  }
  if (stream === undefined) {
    return fault(
      "stream_context_unverifiable",
      "bundle has stream_id but verifier did not provide a stream context",
    );
  }
  if (stream_id !== stream.stream_id) {
    return fault("stream_id_mismatch", "bundle stream_id does not match verifier stream context");
  }
  return checkTurn(stream_seq, stream.last_seen_seq);
}

function checkTurn(turn: number, last: number): Violation | undefined {
  if (turn === last + 1) return undefined;
  return turn <= last
    ? fault("stream_seq_replay", `stream_seq ${turn} already seen (last=${last})`)
    : fault("stream_seq_skip", `stream_seq ${turn} skips turns (last=${last})`);
}

function fault(code: ViolationCode, detail: string, certificate?: number): Violation {
  return certificate === undefined ? { code, detail } : { code, detail, certificate };
}

function unknownChallenge(): Violation {
  return fault("unknown_challenge", "challenge is not open");
}

function hasBytes(text: string, length: number): boolean {
  try {
    decodeBase64(text, length);
    return true;
  } catch (error) {
    if (error instanceof ProtocolError) return false;
    throw error;
  }
}
