import type { DelegationCert } from "../documents/certificate.ts";
import { intersectScopes } from "../documents/scopes.ts";
import { BINDING_BYTES, MAX_DELEGATION_CHAIN_DEPTH } from "../encoding/constants.ts";
import { ALGORITHMS } from "../keys/algorithms.ts";
import { equalPublicKeys, isIdOf } from "../keys/hybrid.ts";
import {
  ALREADY_VALID_RULE,
  CONSTRAINTS_RULE,
  DELEGATION_RIGHT_RULE,
  LINK_RULE,
  NOT_EXPIRED_RULE,
  NOT_REVOKED_RULE,
  SIGNATURE_RULE,
  VERSION_RULE,
  VOCABULARY_RULE,
} from "./certificate_rules.ts";
import {
  CHALLENGE_KNOWN_RULE,
  CHALLENGE_SIGNATURE_RULE,
  CHALLENGE_SPENT_RULE,
  FRESHNESS_RULE,
  SESSION_CONTEXT_RULE,
  STREAM_RULE,
} from "./challenge_rules.ts";
import type { Evidence } from "./evidence.ts";
import {
  type BundleRule,
  type CertificateRule,
  hasBytes,
  hasEncodedLength,
  type Rule,
  type Step,
  violation,
} from "./rules.ts";

const STRUCTURE_RULE: BundleRule = {
  name: "structure",
  kind: "evidence",
  check: ({ bundle: { delegations, challenge } }) => {
    if (delegations.length === 0) return violation("no_delegations", "bundle contains no delegations");
    if (delegations.length > MAX_DELEGATION_CHAIN_DEPTH) {
      return violation("chain_too_deep", "delegation chain exceeds maximum depth");
    }
    return hasBytes(challenge, BINDING_BYTES)
      ? undefined
      : violation("no_challenge", "bundle contains no challenge of 32 bytes");
  },
};

const AGENT_KEY_RULE: BundleRule = {
  name: "agent_key",
  kind: "evidence",
  check: ({ bundle: { agent_id, agent_pub_key, delegations } }) => {
    const leaf = delegations[0];
    if (
      !hasEncodedLength(agent_pub_key.ed25519, ALGORITHMS.ed25519.publicKeyBytes) ||
      !hasEncodedLength(agent_pub_key.ml_dsa_65, ALGORITHMS.ml_dsa_65.publicKeyBytes)
    ) {
      return violation("invalid_agent_key", "agent public key has a wrong length");
    }
    if (leaf === undefined || !equalPublicKeys(agent_pub_key, leaf.subject_pub_key)) {
      return violation("key_mismatch", "agent public key does not match delegation subject");
    }
    if (agent_id !== leaf.subject_id) {
      return violation("id_mismatch", "agent id does not match delegation subject");
    }
    return isIdOf(agent_id, agent_pub_key)
      ? undefined
      : violation("id_mismatch", "agent id is not its public key's");
  },
};

const REQUIRED_SCOPE_RULE: BundleRule = {
  name: "required_scope",
  kind: "permission",
  check: ({ bundle, options: { required_scope } }) =>
    required_scope === undefined || effectiveScope(bundle.delegations).includes(required_scope)
      ? undefined
      : violation(
          "scope_denied",
          `required scope ${JSON.stringify(required_scope)} not in effective delegation scope`,
        ),
};

const OPENING_RULES = [
  STRUCTURE_RULE,
  SESSION_CONTEXT_RULE,
  CHALLENGE_KNOWN_RULE,
  STREAM_RULE,
  AGENT_KEY_RULE,
];
const CERTIFICATE_RULES = [
  VERSION_RULE,
  VOCABULARY_RULE,
  NOT_EXPIRED_RULE,
  ALREADY_VALID_RULE,
  NOT_REVOKED_RULE,
  SIGNATURE_RULE,
  LINK_RULE,
  DELEGATION_RIGHT_RULE,
];
const CHALLENGE_RULES = [FRESHNESS_RULE, CHALLENGE_SIGNATURE_RULE, CHALLENGE_SPENT_RULE];

/** All rules, in the order in which they are evaluated when a challenge store is configured. */
const RULES_WITH_STORE: readonly Rule[] = [
  ...OPENING_RULES,
  ...CERTIFICATE_RULES,
  ...CHALLENGE_RULES,
  CONSTRAINTS_RULE,
  REQUIRED_SCOPE_RULE,
];

/** Names of the rules that decide whether a proof is genuine, in order of evaluation. */
export const EVIDENCE_RULES: readonly string[] = RULES_WITH_STORE.filter(
  ({ kind }) => kind === "evidence",
).map(({ name }) => name);

/**
 * Returns all rules for one bundle, in the order of wire format §8. Without a challenge store, a
 * certificate's constraints are evaluated with its other rules. With a store, all constraints are evaluated
 * after the challenge is spent.
 */
export function orderSteps(evidence: Evidence): Step[] {
  const constraintsComeLast = evidence.options.challengeStore !== undefined;
  const certificateRules = constraintsComeLast
    ? CERTIFICATE_RULES
    : CERTIFICATE_RULES.flatMap((rule) => (rule === LINK_RULE ? [CONSTRAINTS_RULE, rule] : [rule]));
  return [
    ...bundleSteps(evidence, OPENING_RULES),
    ...certificateSteps(evidence, certificateRules),
    ...bundleSteps(evidence, CHALLENGE_RULES),
    ...(constraintsComeLast ? certificateSteps(evidence, [CONSTRAINTS_RULE]) : []),
    ...bundleSteps(evidence, [REQUIRED_SCOPE_RULE]),
  ];
}

/** Converts rules about the whole bundle to steps. */
export function bundleSteps(evidence: Evidence, rules: readonly BundleRule[]): Step[] {
  return rules.map(({ name, kind, check }) => ({ name, kind, check: check && (() => check(evidence)) }));
}

/** Returns the scopes that the whole chain grants, sorted by code point (wire format §6). */
export function effectiveScope(chain: readonly DelegationCert[]): string[] {
  return intersectScopes(...chain.map(({ scope }) => scope));
}

function certificateSteps(evidence: Evidence, rules: readonly CertificateRule[]): Step[] {
  const chain = evidence.bundle.delegations.slice(0, MAX_DELEGATION_CHAIN_DEPTH);
  return chain.flatMap((certificate, index) => {
    const position = { index, certificate, parent: chain[index + 1] };
    return rules.map(({ name, kind, check }) => ({
      name,
      kind,
      certificate: index,
      check: check && (() => check(evidence, position)),
    }));
  });
}
