/**
 * The progress of an object:
 * - `done`: Ready.
 * - `waiting`: the operator tries again automatically.
 * - `stuck`: somebody has to change something.
 * - `paused`: suspended.
 * - `ended`: ended as its spec requests, so nothing is left to do.
 */
type Progress = "done" | "waiting" | "stuck" | "paused" | "ended";

type Entry = {
  progress: Progress;
  meaning: string;
  /** Milliseconds until the next check, for causes that the operator does not watch. */
  recheckMs?: number;
};

/** All reasons of the condition Ready. Other conditions, events and metrics use the same reasons. */
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
      "A Delegation's scopes exceed the Platform's ceiling, a Platform's scopes exceed the namespace's ceiling, or the Platform's ceiling exceeds the registered one.",
  },
  InvalidScopes: {
    progress: "stuck",
    meaning:
      "A scope is neither in the vocabulary nor of the form custom:<area>:<action>, or a custom scope of a new Platform ends with *.",
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
  NamespaceNotSelected: {
    progress: "stuck",
    meaning:
      "The labels of the namespace do not match the operator's selector. Authority that exists stays in force until the object is deleted.",
  },
  ExternalConflict: {
    progress: "stuck",
    meaning: "The service knows the object with other values that cannot be changed.",
  },
  AdoptionNotConfirmed: {
    progress: "stuck",
    meaning:
      "The account's owner has not confirmed that the object may take over the platform or agent in spec.adopt.",
    recheckMs: 30_000,
  },
  ApprovalPolicyMissing: {
    progress: "stuck",
    meaning: "The admission policies that guard approvals are missing or altered.",
    recheckMs: 30_000,
  },
  ApproverNotLinked: {
    progress: "stuck",
    meaning: "The Kubernetes user who approved is not linked to a member who may approve.",
    recheckMs: 30_000,
  },
  FourEyesRequired: {
    progress: "stuck",
    meaning: "Two people are required, but the requester also approved, or spec.requestedBy names nobody.",
    recheckMs: 30_000,
  },
  Denied: { progress: "stuck", meaning: "The owner denied the request." },
  Revoked: {
    progress: "stuck",
    meaning: "The authority was revoked, or the agent or platform was removed in the account.",
  },
  Expired: { progress: "stuck", meaning: "The certificate has ended, or nobody decided in time." },
  ExternalMissing: {
    progress: "stuck",
    meaning:
      "The service does not know the request, for example because the operator's cluster id changed or the service's database was restored. The operator does not request it again, and the message says what to do.",
  },
  LimitReached: {
    progress: "stuck",
    meaning:
      "The API carried out the same action too often within a short time, or too many requests are pending. The message names the limit. The operator tries again when the API allows it.",
    recheckMs: 30_000,
  },
  ClusterRefused: {
    progress: "stuck",
    meaning:
      "The cluster does not carry out a write of the operator because of its role, an admission policy, a quota, an immutable object, or an admission webhook that does not answer. The message names verb and resource.",
    recheckMs: 30_000,
  },
  ApiUnavailable: { progress: "waiting", meaning: "The service's API does not answer." },
  VaultUnavailable: { progress: "waiting", meaning: "The key vault does not answer." },
  AuthorizationFailed: { progress: "stuck", meaning: "The API refuses the operator's token." },
  SecretNotOwned: {
    progress: "stuck",
    meaning: "The Secret for the credentials exists and was not made for this Platform or Agent.",
  },
  Suspended: { progress: "paused", meaning: "spec.suspend is true." },
  Terminating: { progress: "waiting", meaning: "The object is being deleted." },
  DependentsExist: {
    progress: "waiting",
    meaning: "The object is deleted after the objects that refer to it.",
  },
} as const satisfies Record<string, Entry>;

/** One of the documented reasons. */
export type Reason = keyof typeof reasons;

/** The state of an object. `message` is human-readable. `asAsked`: the object ended as its spec requests. */
export type StatusReason = { reason: Reason; message: string; asAsked?: true };

/** Reasons of a Delegation whose request can still be decided. */
export const UNDECIDED: ReadonlySet<string> = new Set<Reason>([
  "AwaitingApproval",
  "Suspended",
  "ApproverNotLinked",
  "FourEyesRequired",
  "ApprovalPolicyMissing",
]);

/** Returns the progress that a verdict means. */
export function progressOf({ reason, asAsked }: Pick<StatusReason, "reason" | "asAsked">): Progress {
  return asAsked === true ? "ended" : reasons[reason].progress;
}

/** Returns the milliseconds until the next check; `undefined` if only a change triggers a check. */
export function recheckOf(reason: Reason): number | undefined {
  const entry: Entry = reasons[reason];
  return entry.recheckMs;
}

/** Returns the verdict of the first rule that applies. */
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
