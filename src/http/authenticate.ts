import { csrfMatches, type LiveSession } from "../accounts/sessions/sessions.ts";
import { ApiError } from "../errors.ts";
import type { Names } from "../input/names.ts";
import type { Access, ApiKeyCaller, MemberRole, OperatorCaller, Route, SessionCaller } from "../route.ts";
import type { Cookies } from "./cookies.ts";
import type { HttpCall } from "./http_call.ts";

/** Proves who calls. The presented text is hostile; `undefined` and `false` say no. */
export type Authenticators = {
  /** The live session of a session cookie, with the membership in the account that is to be acted for. */
  findSession(token: string, actFor?: string): Promise<LiveSession | undefined>;
  /** Whether this is the address of somebody who looks after the service. */
  isServiceAdministrator(email: string): boolean;
  /** The connection of an API key. */
  findApiKey(presented: string): Promise<ApiKeyCaller | undefined>;
  /**
   * The operator whose bearer token this is, of this cluster. Throws `operator_unauthorized`, and
   * `invalid_request` for a cluster that can be none.
   */
  identifyOperator(token: string, clusterId: string): Promise<OperatorCaller>;
  /** Whether this is the epoch of the newest leader of the operator's cluster. */
  isLeader(caller: OperatorCaller, epoch: number): Promise<boolean>;
};

/** Looks at a call, notes what it found out, and throws a refusal. */
export type Check = (call: HttpCall) => Promise<void> | void;

/** What a call has to pass, in this order. Those that its route does not need are absent. */
type CallerChecks = {
  /** Finds out who calls. Throws the code of the route's access. */
  caller: Check | undefined;
  /** Compares the CSRF header with the cookie, for people's calls that change something. */
  csrf: Check | undefined;
  /** Finds the account that a person acts for, and whether their onboarding and role allow the call. */
  role: Check | undefined;
};

const CHANGING = new Set(["POST", "PUT", "PATCH", "DELETE"]);

/** The checks of a route's callers. Throws for a route that cannot keep what it declares. */
export function callerChecks(route: Route, authenticators: Authenticators, cookies: Cookies): CallerChecks {
  const { access } = route;
  if (route.roles === "service_administrator" && access !== "session") {
    throw new Error(`${route.id}: only a session says which person calls`);
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
      return apiKeyLookUp(authenticators);
    case "operator":
      return operatorLookUp(route, authenticators);
    case "session":
      return sessionLookUp(authenticators, cookies);
    case "account": {
      const byKey = apiKeyLookUp(authenticators);
      const bySession = sessionLookUp(authenticators, cookies);
      // An API key when one is sent, whatever cookies are sent with it.
      return (call) => (call.header("x-service-api-key") === undefined ? bySession(call) : byKey(call));
    }
  }
}

function apiKeyLookUp({ findApiKey }: Authenticators): Check {
  return async (call) => {
    call.caller = await findApiKey(call.header("x-service-api-key") ?? "");
    if (call.caller === undefined) throw new ApiError("invalid_api_key");
    call.provenAt = performance.now();
  };
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

/** Who calls, for the account that the call names. Throws `not_found` when they are no member of it. */
function sessionCaller(
  route: Route,
  { own, other, sessionId, familyId, onboardingStep }: LiveSession,
  actFor: string | undefined,
): SessionCaller {
  const isOwn = actFor === undefined || actFor.toLowerCase() === own.accountId;
  if (!isOwn && other === null) throw new ApiError("not_found", "You are no member of such an account");
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

/** What somebody may do: by their role in the account that they act for, and for the service itself. */
export type Powers = { role: MemberRole | null; serviceAdministrator: boolean };

/**
 * Whether somebody may call a route: owners everything of their organization, others what is declared for
 * them. What is for service administrators is in nobody's role.
 */
export function isForRole(
  { roles = [] }: Pick<Route, "roles">,
  { role, serviceAdministrator }: Powers,
): boolean {
  if (roles === "service_administrator") return serviceAdministrator;
  return roles === "person" || role === "owner" || (role !== null && roles.includes(role));
}

type Proof = "session" | "refresh" | "api_key" | "operator";

const byAccess: Record<Access, readonly Proof[]> = {
  public: [],
  session: ["session"],
  api_key: ["api_key"],
  account: ["api_key", "session"],
  operator: ["operator"],
};

/**
 * What a 401 of a route says about how to prove the caller (`WWW-Authenticate`, RFC 9110 §11.6.1): `ApiKey`
 * with the header that carries the key, `Cookie` with the name of the cookie, `Bearer` for the operator. A
 * browser asks its user for a password at none of these. `undefined` for a route that demands nothing.
 */
export function challengesOf(route: Route, names: Names): string | undefined {
  const demanded = (route.demands ?? []).filter((name) => name !== "csrf");
  const proofs = [...byAccess[route.access], ...demanded];
  return proofs.length === 0 ? undefined : proofs.map((proof) => challengeOf(proof, names)).join(", ");
}

function challengeOf(proof: Proof, names: Names): string {
  const realm = `realm="${names.word}"`;
  if (proof === "operator") return `Bearer ${realm}`;
  if (proof === "api_key") return `ApiKey ${realm}, header="${names.header("X-Service-API-Key")}"`;
  return `Cookie ${realm}, cookie-name="${names.cookie(proof)}"`;
}
