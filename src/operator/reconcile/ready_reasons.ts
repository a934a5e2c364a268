/**
 * How far an object is: `done` (Ready), `waiting` (the operator looks again by itself), `stuck` (a person has
 * to change something), `paused`, `ended` (as its spec says, so nothing is left to do).
 */
type Progress = "done" | "waiting" | "stuck" | "paused" | "ended";

type Entry = {
  progress: Progress;
  meaning: string;
  /** Milliseconds after which to look again, where the cause lies outside of what is watched. */
  recheckMs?: number;
};

/** The closed set of reasons of the condition Ready, used alike in other conditions, events and metrics. */
export const reasons = {
  Active: { progress: "done", meaning: "Everything is in place." },
  AwaitingApproval: {
    progress: "waiting",
    meaning: "The request is filed; the account's owner has not decided yet. The message has the link.",
  },
  Issuing: { progress: "waiting", meaning: "Approved in Kubernetes; the certificate is being issued." },
  PlatformNotReady: {
    progress: "waiting",
    meaning: "The Platform referred to does not exist, is being deleted or is not registered.",
  },
  AgentNotReady: {
    progress: "waiting",
    meaning:
      "The Agent referred to does not exist, is being deleted, has no key or belongs to another Platform.",
  },
  CeilingExceeded: {
    progress: "stuck",
    meaning:
      "The scopes go beyond the Platform's ceiling, the ceiling or the accepted scopes beyond the namespace's, or the ceiling beyond what was registered.",
  },
  InvalidScopes: {
    progress: "stuck",
    meaning: "A scope is neither in the vocabulary nor of the form custom:<area>:<action>.",
  },
  InvalidSpec: {
    progress: "stuck",
    meaning: "The manifest or a value in it is refused; the message says why.",
  },
  PlatformLimit: {
    progress: "stuck",
    meaning: "The account cannot register another platform.",
    recheckMs: 30_000,
  },
  NamespaceNotBound: {
    progress: "stuck",
    meaning: "No account is bound to the namespace, or the account has not finished its onboarding.",
    recheckMs: 5_000,
  },
  ExternalConflict: {
    progress: "stuck",
    meaning: "The service knows the object with other values that cannot be changed.",
  },
  AdoptionNotConfirmed: {
    progress: "stuck",
    meaning: "The account's owner has not confirmed that the object takes over what spec.adopt names.",
    recheckMs: 30_000,
  },
  ApprovalPolicyMissing: {
    progress: "stuck",
    meaning: "The admission policies that guard approvals are missing or altered.",
    recheckMs: 30_000,
  },
  ApproverNotLinked: {
    progress: "stuck",
    meaning: "The Kubernetes user who approved is not linked to the account.",
    recheckMs: 30_000,
  },
  FourEyesRequired: {
    progress: "stuck",
    meaning: "Whoever asked also approved, or nobody is said to have asked where two people are needed.",
    recheckMs: 30_000,
  },
  Denied: { progress: "stuck", meaning: "The owner said no." },
  Revoked: {
    progress: "stuck",
    meaning: "The authority was taken back, or the agent or platform was removed in the account.",
  },
  Expired: { progress: "stuck", meaning: "The certificate has ended, or nobody decided in time." },
  ExternalMissing: {
    progress: "stuck",
    meaning:
      "The service does not know what was asked for before, as after a restore of its database. Nothing is asked for again: delete the object and create it again.",
  },
  ClusterRefused: {
    progress: "stuck",
    meaning:
      "The cluster refuses the operator a write: its role, an admission policy, a quota or an immutable object. The message names verb and resource.",
    recheckMs: 30_000,
  },
  ApiUnavailable: { progress: "waiting", meaning: "The service's API does not answer." },
  VaultUnavailable: { progress: "waiting", meaning: "The key vault does not answer." },
  AuthorizationFailed: { progress: "stuck", meaning: "The API refuses the operator's token." },
  SecretNotOwned: {
    progress: "stuck",
    meaning: "The Secret for the credentials exists and was not made for this Platform.",
  },
  Suspended: { progress: "paused", meaning: "spec.suspend is true." },
  Terminating: { progress: "waiting", meaning: "The object is being deleted." },
  DependentsExist: {
    progress: "waiting",
    meaning: "The object is deleted after the objects that refer to it.",
  },
} as const satisfies Record<string, Entry>;

/** A documented reason. */
export type Reason = keyof typeof reasons;

/**
 * What was found out about an object: a reason and a sentence for people; whether its end is what its spec
 * says.
 */
export type StatusReason = { reason: Reason; message: string; asAsked?: true };

/** Reasons of a Delegation whose request can still be decided. */
export const UNDECIDED: ReadonlySet<string> = new Set<Reason>([
  "AwaitingApproval",
  "Suspended",
  "ApproverNotLinked",
  "FourEyesRequired",
  "ApprovalPolicyMissing",
]);

/** The progress that a verdict means. */
export function progressOf({ reason, asAsked }: Pick<StatusReason, "reason" | "asAsked">): Progress {
  return asAsked === true ? "ended" : reasons[reason].progress;
}

/**
 * Milliseconds after which an object with this reason is looked at again without a change; `undefined`: only
 * after a change.
 */
export function recheckOf(reason: Reason): number | undefined {
  const entry: Entry = reasons[reason];
  return entry.recheckMs;
}

/** What the first rule says that has something to say. */
export function firstOf<R>(
  rules: readonly R[],
  ask: (rule: R) => StatusReason | undefined,
): StatusReason | undefined {
  for (const rule of rules) {
    const verdict = ask(rule);
    if (verdict !== undefined) return verdict;
  }
  return undefined;
}
