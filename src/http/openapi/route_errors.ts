import type { ErrorCode } from "../../errors.ts";
import { type Access, narrowRoles, type Route } from "../../route.ts";

const accessErrors: Record<Access, ErrorCode[]> = {
  public: [],
  session: ["auth_required"],
  api_key: ["invalid_api_key"],
  account: ["invalid_api_key", "auth_required"],
  operator: ["operator_unauthorized", "stale_epoch"],
};

/** Error codes of every call: any call may exceed its client's rate limit, and any component may fail. */
const ANY_CALL = ["rate_limited", "internal", "unavailable"] as const;
/** Error codes of every route: those of every call, and that of a malformed request. */
export const EVERY_ROUTE = ["invalid_request", ...ANY_CALL] as const;

/** Returns every error code of a route: its own, those of its access and options, and those of every call. */
export function routeErrors(route: Route): ErrorCode[] {
  const codes: ErrorCode[] = ["invalid_request", ...accessErrors[route.access]];
  if (takesKeys(route) && !narrowRoles.every((role) => route.keyRoles?.includes(role))) {
    codes.push("key_not_allowed");
  }
  if (route.access === "session" || route.access === "account") {
    if (route.csrf !== false && route.method !== "GET") codes.push("csrf_failed");
    if (route.onboarding !== "any") codes.push("onboarding_incomplete");
    codes.push("not_found");
    if (typeof route.roles !== "string") codes.push("forbidden");
  }
  if (namesSomething(route)) codes.push("not_found");
  if (route.idempotent === true) codes.push("idempotency_conflict");
  if (route.idempotent === true && route.showsSecret) codes.push("answer_not_kept");
  return [...new Set([...codes, ...route.errors, ...ANY_CALL])];
}

function takesKeys({ access }: Route): boolean {
  return access === "api_key" || access === "account";
}

/** Checks whether a path names an object. Returns false if the route declares its own 404 response. */
function namesSomething({ path, otherAnswers }: Route): boolean {
  return /\{\w+\}/.test(path) && otherAnswers?.[404] === undefined;
}
