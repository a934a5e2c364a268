/** The cause of an error, and the id of a {@link Denied}. */
export type AgentErrorOptions = ErrorOptions & { evaluationId?: string | undefined };

/**
 * An action that an agent could not do. `code` is a stable code of the service or of the guard, or one of the
 * codes below. The message is one of a few fixed sentences: it never contains text of another party.
 */
export class AgentError extends Error {
  override readonly name: string = "AgentError";
  readonly code: string;
  /** The id of the action. Pass it again to repeat the same action: it is then done at most once. */
  readonly invocationId: string | undefined;

  constructor(code: string, message: string, invocationId?: string, options?: AgentErrorOptions) {
    super(`${message} (${code})`, options);
    this.code = code;
    this.invocationId = invocationId;
  }
}

/** The person's authority does not permit the action. Nothing was done. `code` is the reason. */
export class Denied extends AgentError {
  override readonly name: string = "Denied";
  /** The id of the denial, if an approval of a person could resolve it. */
  readonly evaluationId: string | undefined;
  /** Why asking did not help: a code of the service, or the state of the request, such as `denied`. */
  askFault: string | undefined;

  constructor(code: string, message: string, invocationId?: string, options: AgentErrorOptions = {}) {
    super(code, message, invocationId, options);
    this.evaluationId = options.evaluationId;
  }
}

/** The agent has asked, and no person has decided yet. Nothing was done. Repeat with `invocationId`. */
export class AwaitingApproval extends Denied {
  override readonly name: string = "AwaitingApproval";
  /** The id of the request, which the service's events also have. */
  readonly taskId: string;
  /** The page on which a person decides. `undefined` if the service is not below the agent's `baseUrl`. */
  readonly url: string | undefined;

  constructor(
    { taskId, url }: { taskId: string; url: string | undefined },
    invocationId: string,
    cause: Denied,
  ) {
    const { evaluationId } = cause;
    const sentence = "The agent asked, and no person has decided yet. Nothing was done.";
    super("awaiting_approval", sentence, invocationId, { cause, evaluationId });
    this.taskId = taskId;
    this.url = url;
  }
}

/** The person has not granted the scope, or no certificate of the agent is active. Nothing was done. */
export class NotDelegated extends Denied {
  override readonly name: string = "NotDelegated";
}

/** The person or the platform has revoked the authority. Nothing was done. */
export class Revoked extends Denied {
  override readonly name: string = "Revoked";
}

/** The authority has expired. Nothing was done. */
export class Expired extends Denied {
  override readonly name: string = "Expired";
}

/** The application did not accept the proof as one for this action. Nothing was done. */
export class NotProven extends AgentError {
  override readonly name: string = "NotProven";
}

/** The invocation was decided before. Nothing was done again. */
export class Replayed extends AgentError {
  override readonly name: string = "Replayed";
}

/** No proof or no decision could be made, even after repeated calls. Nothing was done. */
export class Unavailable extends AgentError {
  override readonly name: string = "Unavailable";
}

/**
 * The application did not answer, so the action may have been done. Repeat it with `invocationId`. With the
 * code `not_sent`, the application could not be reached, and nothing was done.
 */
export class Unanswered extends AgentError {
  override readonly name: string = "Unanswered";
}

/**
 * The address has no verifier in the settings, or not the one that the call names, or the service knows no
 * such verifier, or servers can read the path as another verifier's. Nothing was sent to the application.
 */
export class WrongVerifier extends AgentError {
  override readonly name: string = "WrongVerifier";
}

/** The id of a refusal by `present` is the sealed refusal itself. */
const EVALUATION_ID = /^[\w-]{1,8192}$/;

type ErrorClass = typeof AgentError;

const NOT_PROVEN =
  "The application did not accept the proof for this action. Nothing was done. " +
  "Compare scope, action, path, body and verifier with the guard's. Its faults name what differs.";
const DENIED = "The authority does not permit this action. Nothing was done.";

/** The error and its sentence for each code of a refusal: of the guard, and of decisions that deny. */
export const REFUSALS: Readonly<Record<string, readonly [ErrorClass, string]>> = {
  not_delegated: [NotDelegated, "No person has granted this scope. Nothing was done."],
  no_active_delegation: [NotDelegated, "The agent has no active authority for this. Nothing was done."],
  delegation_revoked: [Revoked, "The authority was revoked. Nothing was done."],
  delegation_expired: [Expired, "The authority has expired. Nothing was done."],
  not_yet_valid: [Denied, DENIED],
  untrusted_root: [Denied, DENIED],
  principal_not_accepted: [
    Denied,
    "The application does not accept this person's authority. Nothing was done.",
  ],
  constraint_denied: [Denied, DENIED],
  constraint_unverifiable: [Denied, DENIED],
  constraint_unknown: [Denied, DENIED],
  delegation_not_authorized: [Denied, DENIED],
  ceiling_exceeded: [Denied, DENIED],
  no_authority_demonstrated: [NotProven, NOT_PROVEN],
  invocation_replayed: [Replayed, "This invocation was decided before. Nothing was done again."],
  invocation_conflict: [
    AgentError,
    "The invocation id was used for another action. Nothing was done. Use a new id for each action.",
  ],
  verification_unavailable: [Unavailable, "The authority could not be verified. Nothing was done."],
};

/** Returns the error of a code in {@link REFUSALS}, or `undefined` for any other value. */
export function refusalError(
  code: unknown,
  invocationId: string,
  evaluationId?: unknown,
): AgentError | undefined {
  if (typeof code !== "string" || !Object.hasOwn(REFUSALS, code)) return undefined;
  const [Kind, message] = REFUSALS[code] ?? [AgentError, DENIED];
  const isId = typeof evaluationId === "string" && EVALUATION_ID.test(evaluationId);
  return new Kind(code, message, invocationId, isId ? { evaluationId } : {});
}

/** The codes with which Node's `fetch` fails before a connection exists. */
const NO_CONNECTION = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"];

/** Returns the error for a call of `fetch` that failed with `error`. */
export function unanswered(invocationId: string, error: unknown): Unanswered {
  const { cause } = Object(error) as { cause?: unknown };
  const { code } = Object(cause) as { code?: unknown };
  const isUnsent = typeof code === "string" && NO_CONNECTION.includes(code);
  const sentence = isUnsent
    ? "The application could not be reached. Nothing was sent."
    : "The application did not answer.";
  return new Unanswered(isUnsent ? "not_sent" : "no_answer", sentence, invocationId, { cause: error });
}
