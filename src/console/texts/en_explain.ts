/** The rules of a decision, each as what holds when it passes. */
const RULES: Record<string, string | undefined> = {
  structure: "The proof is complete: certificates, and a challenge of 32 bytes.",
  session_context: "It is bound to the operation that the application names, and to none when it names none.",
  challenge_known: "This service gave its challenge to this platform, less than five minutes ago.",
  stream: "It is no turn of a stream of proofs: such turns are not decided on here.",
  agent_key: "The agent has the key that its certificate names.",
  version: "Every certificate has a version that this service reads.",
  vocabulary: "Every scope in them is one that exists.",
  signature: "Whoever issued a certificate has signed it.",
  link: "The certificates follow on each other, back to the person who lent the authority.",
  challenge_freshness: "The agent signed the challenge within the last five minutes.",
  challenge_signature: "The agent's own key signed it.",
  challenge_spent: "The challenge was not used before.",
  root_trusted: "The authority comes from an account of this service.",
  principal_accepted: "The platform accepts authority from that account for this scope.",
  not_expired: "The delegation has not ended.",
  already_valid: "The delegation has begun.",
  not_revoked: "The delegation is not revoked, and that is known.",
  delegation_right: "Whoever passed the delegation on was allowed to.",
  constraints: "Every limit of the delegation is met.",
  required_scope: "The delegation has the scope that is asked for.",
  within_ceiling: "The scope is within what the platform may be lent today.",
};

/** What would have been needed, by the reason of a decision or the code of why there is none. */
const NEEDED: Record<string, string | undefined> = {
  untrusted_root:
    "A delegation by an account of this service. Nobody here has the key that signed the one that was shown.",
  principal_not_accepted:
    "A delegation by the account of the platform, or by one that the platform accepts for this scope. Its owner decides whom it accepts.",
  delegation_expired: "A delegation that has not ended. Ask for a new one.",
  not_yet_valid: "A delegation that has begun.",
  delegation_revoked: "A delegation that is not revoked. Ask for a new one.",
  revocation_state_unavailable:
    "A certificate whose state this service knows. As long as it does not know it, it allows nothing.",
  delegation_not_authorized:
    "A delegation whose holder may pass it on: the scope identity:delegate, in each certificate but the last.",
  constraint_denied: "Values within the limits of the delegation.",
  constraint_unverifiable:
    "A value for goody limit: the application sends what it knows of the action with its call.",
  constraint_unknown: "Limits that this service can check.",
  not_delegated: "A delegation that has this scope. Ask for one, or ask for less here.",
  ceiling_exceeded:
    "A platform that may be lent this scope. It was made narrower after the delegation was approved.",
  no_active_delegation: "A delegation that is active. Without one there is nothing to prove.",
  credits_exhausted: "Credit for a decision. Ask who runs this service for more.",
};

/** How decisions are explained. */
export const EXPLAIN = {
  needed: "What would have been needed",
  rules: RULES,
  neededFor: NEEDED,
  other: "The reason is not one that these pages know.",
  rule: "Rule",
  result: "Result",
  outcomes: { passed: "Passed", failed: "Failed", not_reached: "Not reached" },
  genuine: "Is the proof genuine?",
  genuineHint: "Without this there is no decision.",
  permitted: "May the agent do this?",
  permittedHint: "The first rule that fails decides; those after it are not reached.",
  passed: (passed: number, all: number) =>
    passed === all ? `All ${all} rules passed` : `${passed} of ${all} rules passed`,
  asked: "Asked for",
  granted: "The delegation has",
  nothing: "nothing",
  ended: "It ended",
  begins: "It begins",
  revoked: "It was revoked",
  revokeReason: "Reason given",
  ceiling: "The platform may be lent",
  constraints: "It holds only if",
  detail: "In the service's words",
};
