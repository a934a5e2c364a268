/**
 * All error codes of this service, each with its HTTP status and its meaning. The OpenAPI document is
 * generated from this table, and a test compares `docs/api.md` with it.
 */
export const errorCodes = {
  invalid_request: [400, "The body, a parameter or a header is malformed, mistyped, missing or too large"],
  invalid_code: [400, "The sign-in code is wrong, used, expired or was tried too often"],
  invalid_scopes: [400, "A scope is neither canonical nor of the form custom:<area>:<action>"],
  surface_not_available: [400, "The surface type is unknown or not open yet"],
  ceiling_widened: [400, "default_allowed_scopes may only shrink"],
  invalid_callback_url: [400, "The callback URL is not allowed"],
  invalid_redirect_uri: [400, "The redirect URI is not allowed, or the platform has not registered it"],
  invalid_domain: [400, "The domain is not one that can be registered, or is a public suffix"],
  invalid_constraints: [
    400,
    "A constraint is malformed or has text that is not fully visible, or the constraints cannot be met together",
  ],
  constraint_widened: [400, "An approver's constraint allows more than the requested one of its kind"],
  invalid_expiry: [400, "The expiry is in the past, or the call has both expires_at and expires_in"],
  invalid_principal: [
    400,
    "An accepted principal is not a root identity of the registry, is listed twice, or is the account's own",
  ],
  invalid_invitation: [400, "The invitation is unknown, used, withdrawn, expired or for another address"],
  agent_required: [400, "The connection has several agents: name one"],
  scope_not_requested: [400, "The approved scope is empty or wider than requested"],
  ceiling_exceeded: [400, "The scope is wider than the platform's or the account's ceiling"],
  invalid_challenge: [400, "The challenge is unknown, spent, expired or somebody else's"],
  invalid_proof: [400, "The proof is malformed, forged, mismatched or stale"],
  invalid_scope: [400, "The required scope is not a valid scope"],
  session_context_mismatch: [400, "The proof is bound to another operation"],
  auth_required: [401, "There is no live session"],
  invalid_api_key: [401, "The API key is missing, wrong or retired"],
  operator_unauthorized: [401, "The operator's token is missing or wrong"],
  credits_exhausted: [402, "The account has no credit for a decision"],
  csrf_failed: [403, "The CSRF header is missing or does not match the cookie"],
  onboarding_incomplete: [403, "The account's onboarding is not complete: the owner must complete it first"],
  not_available: [403, "The feature is not available yet"],
  domain_not_verified: [403, "The organization has not verified the domain"],
  verifier_mismatch: [403, "The operation names another verifier or workspace"],
  approver_not_linked: [403, "The user who decided in the cluster is not linked to a member who may approve"],
  forbidden: [403, "The caller's role in the organization does not allow this call"],
  key_not_allowed: [403, "The role of the API key does not allow this call"],
  four_eyes_required: [403, "Another person than the requester must decide, and the requester must be known"],
  not_found: [404, "There is no such resource for this caller"],
  no_active_delegation: [404, "The agent has no active certificate"],
  namespace_not_bound: [404, "No account with this address has accepted the namespace"],
  method_not_allowed: [405, "The path exists, the method does not"],
  onboarding_step: [409, "The onboarding is at a step that does not accept this call"],
  approver_limit: [409, "An account can link at most 1,000 approvers"],
  principal_limit: [409, "A platform can accept at most 1,000 principals"],
  namespace_limit: [409, "An account can accept at most 1,000 namespaces"],
  address_taken: [409, "The address belongs to another account, or did in the last 7 days"],
  address_changed: [
    409,
    "The address was changed in the last 7 days: delete the account later, or put the former address back first",
  ],
  already_member: [409, "The address already belongs to a member"],
  member_limit: [409, "An organization can have at most 200 members and open invitations together"],
  last_owner: [409, "An organization must have an owner: make another member an owner first"],
  domain_taken: [409, "Another organization has verified the domain, and its record is still there"],
  domain_record_missing: [
    409,
    "The domain has no TXT record with the organization's value: publish it, then verify again",
  ],
  domain_limit: [409, "An organization can register at most 20 domains"],
  platform_limit: [409, "A personal account can register only one platform"],
  request_limit: [409, "The connection, the account or the requester has too many pending requests"],
  already_delegated: [409, "The agent has this authority already: repeat the action"],
  no_agent: [409, "The connection has no agent"],
  agent_disabled: [409, "The agent is disabled"],
  filter_limit: [409, "A member can save at most 20 filters for an account: delete one first"],
  key_limit: [409, "A connection can have at most 100 agent and verify keys: end one first"],
  request_not_pending: [409, "The delegation request is no longer pending"],
  no_secret_rotation: [409, "No new webhook secret waits to be promoted"],
  no_callback: [409, "The connection has no callback URL"],
  callback_inactive: [409, "The callback is paused or suspended: resume it first"],
  delivery_under_way: [409, "The delivery waits for its first attempt, is due, or is being sent"],
  delivery_body_erased: [409, "The body of the delivery is no longer stored"],
  delivery_limit: [409, "A delivery that has had 50 attempts is not sent again"],
  recovery_open: [409, "Another recovery of the connection's deliveries is under way"],
  adoption_not_confirmed: [
    409,
    "The account's owner has not confirmed that the object may take over the resource",
  ],
  external_conflict: [409, "The resource was registered before with other immutable fields"],
  approval_policy_missing: [409, "The admission policies of the cluster do not guard the decision"],
  stale_epoch: [409, "A newer operator leads: take over the lead again before further calls"],
  idempotency_conflict: [409, "The idempotency key was used with another body"],
  answer_not_kept: [
    409,
    "The call was made under this idempotency key; the secret in its answer is not shown again. Rotate the secret to get a new one",
  ],
  invocation_conflict: [409, "The invocation id was used for another operation"],
  outcome_conflict: [409, "A different outcome was already reported for this invocation"],
  rate_limited: [429, "Too many calls; see Retry-After"],
  denied_recently: [429, "A person denied the agent such a request in the last hour; see Retry-After"],
  action_limited: [429, "The action was carried out too often; see Retry-After"],
  internal: [500, "An unexpected fault; nothing was decided"],
  not_implemented: [501, "The transfer coding of the body is not supported; send it as is or chunked"],
  too_many_revoked: [503, "The identity has more revoked certificates than one list holds: 50,000"],
  vault_unavailable: [503, "The key vault did not sign; nothing was changed"],
  unavailable: [503, "A part of the service is unavailable; nothing was decided"],
} as const satisfies Record<string, readonly [number, string]>;

/** A stable error code of the service. */
export type ErrorCode = keyof typeof errorCodes;

/** Seconds after which a retry may succeed, for answers with 503 that specify no other time. */
const RETRY_SECONDS: Partial<Record<ErrorCode, number>> = {
  unavailable: 1,
  vault_unavailable: 5,
  // A retry succeeds only after revoked certificates have expired.
  too_many_revoked: 3_600,
};

/** The address at which an agent can ask a person for the authority that it lacked. */
type AskableMembers = {
  evaluation_id?: string | undefined;
  access_request?: { endpoint: string; expires_at: string } | undefined;
};

/**
 * A refused call. `code` is stable. `message` is for human readers and never contains a secret. `headers` are
 * sent with the answer. For every 503 they include `Retry-After` in whole seconds.
 */
export class ApiError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly headers: Record<string, string>;
  /** Further members of the body, beside `error`. */
  readonly members: AskableMembers;

  constructor(
    code: ErrorCode,
    message?: string,
    headers: Record<string, string> = {},
    members: AskableMembers = {},
  ) {
    super(message ?? errorCodes[code][1]);
    this.name = "ApiError";
    this.code = code;
    this.status = errorCodes[code][0];
    const seconds = RETRY_SECONDS[code];
    this.members = members;
    this.headers = seconds === undefined ? headers : { "retry-after": String(seconds), ...headers };
  }
}

/** Returns whether an error's message is only the default message of its code. */
export function isGeneral({ code, message }: ApiError): boolean {
  return message === errorCodes[code][1];
}

/**
 * Returns the error for an exhausted rate limit. `what` begins its message. The message and `Retry-After`
 * contain the time to wait.
 */
export function rateLimited(what: string, waitMs: number, headers: Record<string, string> = {}): ApiError {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  const again = { ...headers, "retry-after": String(seconds) };
  return new ApiError("rate_limited", `${what}; try again in ${waitOf(seconds)}`, again);
}

/** Rounds up: in seconds, from 5 minutes on in minutes, and from 2 hours on in hours. */
function waitOf(seconds: number): string {
  if (seconds < 5 * 60) return `${seconds} s`;
  return seconds < 2 * 3_600 ? `${Math.ceil(seconds / 60)} min` : `${Math.ceil(seconds / 3_600)} h`;
}

/** The body of every error response (specification §7). */
export type ErrorBody = { error: { code: ErrorCode; message: string; status: number } } & AskableMembers;

/** Returns an error's response body: code, message and status, and where an agent can ask, if it can. */
export function errorBody(error: ApiError): ErrorBody {
  return { error: { code: error.code, message: error.message, status: error.status }, ...error.members };
}
