import type { IncomingMessage } from "node:http";
import { csrfMatches, type LiveSession } from "../../accounts/sessions/sessions.ts";
import { ApiError } from "../../errors.ts";
import type {
  AccountCaller,
  ApiKeyCaller,
  CallerOf,
  OperatorCaller,
  Route,
  SessionCaller,
} from "../../route.ts";
import type { Cookies } from "./cookies.ts";
import { isForRole } from "./roles.ts";

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

/**
 * A request as authentication sees it: its headers by lower-case name, with the service's word taken care of.
 */
export type Presented = { request: IncomingMessage; header(name: string): string | undefined };

/** Proves the caller of one route. Throws the code of its access. */
export type Authenticate = (presented: Presented) => Promise<CallerOf[Route["access"]]>;

const CHANGING = new Set(["POST", "PUT", "PATCH", "DELETE"]);

/** How the callers of `route` are proven. Throws for one that cannot keep what it declares. */
export function authenticateRoute(
  route: Route,
  authenticators: Authenticators,
  cookies: Cookies,
): Authenticate {
  if (route.roles === "service_administrator" && route.access !== "session") {
    throw new Error(`${route.id}: only a session says which person calls`);
  }
  switch (route.access) {
    case "public":
      return async () => undefined;
    case "api_key":
      return authenticateApiKey(authenticators);
    case "operator":
      return authenticateOperator(route, authenticators);
    case "session":
      return authenticateSession(route, authenticators, cookies);
    case "account":
      return authenticateAccount(route, authenticators, cookies);
  }
}

/** An API key when one is sent, whatever cookies are sent with it; else the session. */
function authenticateAccount(
  route: Route,
  authenticators: Authenticators,
  cookies: Cookies,
): (presented: Presented) => Promise<AccountCaller> {
  const byKey = authenticateApiKey(authenticators);
  const bySession = authenticateSession(route, authenticators, cookies);
  return async (presented) => {
    if (presented.header("x-service-api-key") !== undefined) return byKey(presented);
    const { accountId, organization, person } = await bySession(presented);
    return { accountId, organization, person, connectionId: null };
  };
}

function authenticateApiKey({ findApiKey }: Authenticators): (presented: Presented) => Promise<ApiKeyCaller> {
  return async ({ header }) => {
    const caller = await findApiKey(header("x-service-api-key") ?? "");
    if (caller === undefined) throw new ApiError("invalid_api_key");
    return caller;
  };
}

function authenticateSession(
  route: Route,
  { findSession, isServiceAdministrator }: Authenticators,
  cookies: Cookies,
): (presented: Presented) => Promise<SessionCaller> {
  const needsCsrf = route.csrf !== false && CHANGING.has(route.method);
  return async ({ request, header }) => {
    const token = cookies.read(request.headers.cookie, "session");
    const actFor = header("x-service-account");
    const session = token === undefined ? undefined : await findSession(token, actFor);
    if (session === undefined) throw new ApiError("auth_required");
    const csrfCookie = cookies.read(request.headers.cookie, "csrf");
    if (needsCsrf && !csrfMatches(csrfCookie, header("x-service-csrf"), session.csrfHash)) {
      throw new ApiError("csrf_failed");
    }
    const caller = callerOf(route, session, actFor);
    const isForThemselves = caller.accountId === session.own.accountId;
    caller.serviceAdministrator = isForThemselves && isServiceAdministrator(caller.person.email);
    return checkRole(route, checkOnboarding(route, caller));
  };
}

/** Who calls, for the account that the call names. Throws `not_found` when they are no member of it. */
function callerOf(
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

function checkRole(route: Route, caller: SessionCaller): SessionCaller {
  const { serviceAdministrator, person } = caller;
  if (isForRole(route, { role: person.role, serviceAdministrator })) return caller;
  if (route.roles === "service_administrator") throw new ApiError("not_found");
  throw new ApiError("forbidden");
}

function checkOnboarding(route: Route, caller: SessionCaller): SessionCaller {
  if (route.onboarding !== "any" && caller.onboardingStep !== "complete") {
    throw new ApiError("onboarding_incomplete");
  }
  return caller;
}

function authenticateOperator(route: Route, { identifyOperator, isLeader }: Authenticators): Authenticate {
  return async ({ header }) => {
    const token = /^Bearer (\S+)$/i.exec(header("authorization") ?? "")?.[1];
    if (token === undefined) throw new ApiError("operator_unauthorized");
    const caller = await identifyOperator(token, header("x-deputize-cluster") ?? "");
    if (route.epoch === "none") return caller;
    const epoch = readEpoch(header("x-deputize-epoch"));
    if (!(await isLeader(caller, epoch))) throw new ApiError("stale_epoch");
    return caller;
  };
}

function readEpoch(epoch: string | undefined): number {
  if (epoch === undefined || !/^\d{1,15}$/.test(epoch)) {
    throw new ApiError("invalid_request", "x-deputize-epoch: must be a whole number");
  }
  return Number(epoch);
}
