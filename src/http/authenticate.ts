import { csrfMatches, type LiveSession } from "../accounts/sessions/sessions.ts";
import { ApiError } from "../errors.ts";
import type { Names } from "../input/names.ts";
import {
  type Access,
  type ApiKeyCaller,
  allowsKey,
  type MemberRole,
  type OperatorCaller,
  type Route,
  type SessionCaller,
} from "../route.ts";
import type { Cookies } from "./cookies.ts";
import type { HttpCall } from "./http_call.ts";

/** Identifies callers by untrusted strings. `undefined` or `false`: the credential or claim is not valid. */
export type Authenticators = {
  /** Returns the live session of a session cookie, with the person's membership in the account `actFor`. */
  findSession(token: string, actFor?: string): Promise<LiveSession | undefined>;
  isServiceAdministrator(email: string): boolean;
  findApiKey(presented: string): Promise<ApiKeyCaller | undefined>;
  /** Throws `operator_unauthorized` for a bad token, and `invalid_request` for a malformed cluster id. */
  identifyOperator(token: string, clusterId: string): Promise<OperatorCaller>;
  /** Returns whether `epoch` belongs to the newest leader of the operator's cluster. */
  isLeader(caller: OperatorCaller, epoch: number): Promise<boolean>;
};

/** Checks a call and stores its findings in the call. Throws an `ApiError` to refuse the call. */
export type Check = (call: HttpCall) => Promise<void> | void;

/** The checks of a call, in the order in which they run. `undefined`: the route does not need the check. */
type CallerChecks = {
  /** Identifies the caller. Throws the error code for the route's kind of access. */
  caller: Check | undefined;
  /** Compares the CSRF header with the cookie. Applies to calls that change something and use a session. */
  csrf: Check | undefined;
  /** Finds the account that a person acts for. Checks that their onboarding and role allow the call. */
  role: Check | undefined;
};

const CHANGING = new Set(["POST", "PUT", "PATCH", "DELETE"]);

/** Returns the checks for callers of a route. Throws if the route's declaration contradicts itself. */
export function callerChecks(route: Route, authenticators: Authenticators, cookies: Cookies): CallerChecks {
  const { access } = route;
  if (route.roles === "service_administrator" && access !== "session") {
    throw new Error(`${route.id}: a route for service administrators must use sessions`);
  }
  const isForPeople = access === "session" || access === "account";
  const needsCsrf = isForPeople && route.csrf !== false && CHANGING.has(route.method);
  return {
    caller: lookUp(route, authenticators, cookies),
    csrf: needsCsrf ? csrfCheck(cookies) : undefined,
    role: isForPeople ? roleCheck(route, authenticators) : undefined,
  };
}

function lookUp(route: Route, authenticators: Authenticators, cookies: Cookies): Check | undefined {
  switch (route.access) {
    case "public":
      return undefined;
    case "api_key":
      return apiKeyLookUp(route, authenticators);
    case "operator":
      return operatorLookUp(route, authenticators);
    case "session":
      return sessionLookUp(authenticators, cookies);
    case "account": {
      const byKey = apiKeyLookUp(route, authenticators);
      const bySession = sessionLookUp(authenticators, cookies);
      // An API key takes precedence over cookies.
      return (call) => (call.header("x-service-api-key") === undefined ? bySession(call) : byKey(call));
    }
  }
}

function apiKeyLookUp(route: Route, { findApiKey }: Authenticators): Check {
  const inAuthorization = route.authorizationHeader
    ? (call: HttpCall) => keyInAuthorization(call.header("authorization"))
    : () => "";
  return async (call) => {
    const caller = await findApiKey(call.header("x-service-api-key") ?? inAuthorization(call));
    if (caller === undefined) throw new ApiError("invalid_api_key");
    if (!allowsKey(route.keyRoles, caller)) throw new ApiError("key_not_allowed");
    call.caller = caller;
    call.provenAt = performance.now();
  };
}

/**
 * Returns the API key in an `Authorization` header: the bare key, or a key after `Bearer` or `Basic`. Basic
 * credentials (RFC 7617) have the key as password, or as user name with an empty password.
 */
function keyInAuthorization(value = ""): string {
  const [, scheme = "", token = ""] = /^(?:(Bearer|Basic) +)?(\S+)$/i.exec(value) ?? [];
  if (scheme.toLowerCase() !== "basic" || !/^[A-Za-z0-9+/]+=*$/.test(token)) return token;
  const credentials = Buffer.from(token, "base64").toString();
  const colon = credentials.indexOf(":");
  return credentials.slice(colon + 1) || credentials.slice(0, colon);
}

function sessionLookUp({ findSession }: Authenticators, cookies: Cookies): Check {
  return async (call) => {
    const token = cookies.read(call.request.headers.cookie, "session");
    const actFor = call.header("x-service-account");
    call.session = token === undefined ? undefined : await findSession(token, actFor);
    if (call.session === undefined) throw new ApiError("auth_required");
    call.provenAt = performance.now();
  };
}

function operatorLookUp(route: Route, { identifyOperator, isLeader }: Authenticators): Check {
  return async (call) => {
    const token = /^Bearer (\S+)$/i.exec(call.header("authorization") ?? "")?.[1];
    if (token === undefined) throw new ApiError("operator_unauthorized");
    const caller = await identifyOperator(token, call.header("x-deputize-cluster") ?? "");
    if (route.epoch !== "none") {
      const epoch = readEpoch(call.header("x-deputize-epoch"));
      if (!(await isLeader(caller, epoch))) throw new ApiError("stale_epoch");
    }
    call.caller = caller;
    call.provenAt = performance.now();
  };
}

function readEpoch(epoch: string | undefined): number {
  if (epoch === undefined || !/^\d{1,15}$/.test(epoch)) {
    throw new ApiError("invalid_request", "x-deputize-epoch: must be a whole number");
  }
  return Number(epoch);
}

function csrfCheck(cookies: Cookies): Check {
  return ({ session, request, header }) => {
    if (session === undefined) return;
    const cookie = cookies.read(request.headers.cookie, "csrf");
    if (!csrfMatches(cookie, header("x-service-csrf"), session.csrfHash)) throw new ApiError("csrf_failed");
  };
}

function roleCheck(route: Route, { isServiceAdministrator }: Authenticators): Check {
  return (call) => {
    const { session } = call;
    if (session === undefined) return;
    const caller = sessionCaller(route, session, call.header("x-service-account"));
    const isForThemselves = caller.accountId === session.own.accountId;
    caller.serviceAdministrator = isForThemselves && isServiceAdministrator(caller.person.email);
    if (route.onboarding !== "any" && caller.onboardingStep !== "complete") {
      throw new ApiError("onboarding_incomplete");
    }
    refuseOtherRoles(route, caller);
    const { accountId, organization, person } = caller;
    call.caller =
      route.access === "account" ? { accountId, organization, person, connectionId: null } : caller;
  };
}

/** Returns the person as a caller. Throws `not_found` if the call names an account without this member. */
function sessionCaller(
  route: Route,
  { own, other, sessionId, familyId, onboardingStep }: LiveSession,
  actFor: string | undefined,
): SessionCaller {
  const isOwn = actFor === undefined || actFor.toLowerCase() === own.accountId;
  if (!isOwn && other === null) throw new ApiError("not_found", "You are not a member of that account");
  const { organization, ...person } = own;
  const session = { sessionId, familyId, onboardingStep, serviceAdministrator: false };
  if (other === null || isOwn || route.roles === "person") {
    return { accountId: own.accountId, organization, person, ...session };
  }
  return {
    accountId: other.accountId,
    organization: true,
    person: { ...person, role: other.role },
    ...session,
  };
}

function refuseOtherRoles(route: Route, { serviceAdministrator, person }: SessionCaller): void {
  if (isForRole(route, { role: person.role, serviceAdministrator })) return;
  if (route.roles === "service_administrator") throw new ApiError("not_found");
  throw new ApiError("forbidden");
}

/** A person's role in the account that they act for, and whether they are a service administrator. */
export type Powers = { role: MemberRole | null; serviceAdministrator: boolean };

/**
 * Returns whether a person may call a route. Owners may do everything in their organization. Other roles may
 * call only the routes that list them. Only service administrators may call the routes declared for them.
 */
export function isForRole(
  { roles = [] }: Pick<Route, "roles">,
  { role, serviceAdministrator }: Powers,
): boolean {
  if (roles === "service_administrator") return serviceAdministrator;
  return roles === "person" || role === "owner" || (role !== null && roles.includes(role));
}

type Proof = "session" | "refresh" | "api_key" | "bearer";

const BEARER: readonly Proof[] = ["bearer"];

const byAccess: Record<Access, readonly Proof[]> = {
  public: [],
  session: ["session"],
  api_key: ["api_key"],
  account: ["api_key", "session"],
  operator: BEARER,
};

/**
 * Returns the `WWW-Authenticate` header (RFC 9110 §11.6.1) of a route's 401 responses. None of its schemes
 * makes a browser ask for a password. Returns `undefined` for a route that needs no credentials.
 */
export function challengesOf(route: Route, names: Names, cookies: Cookies): string | undefined {
  const demanded = (route.demands ?? []).filter((name) => name !== "csrf");
  const proofs = [...byAccess[route.access], ...demanded, ...(route.authorizationHeader ? BEARER : [])];
  return proofs.length === 0
    ? undefined
    : proofs.map((proof) => challengeOf(proof, names, cookies)).join(", ");
}

function challengeOf(proof: Proof, names: Names, cookies: Cookies): string {
  const realm = `realm="${names.word}"`;
  if (proof === "bearer") return `Bearer ${realm}`;
  if (proof === "api_key") return `ApiKey ${realm}, header="${names.header("X-Service-API-Key")}"`;
  return `Cookie ${realm}, cookie-name="${cookies.nameOf(proof)}"`;
}
