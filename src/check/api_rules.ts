import type { ZodType } from "zod";
import { checkConstraints } from "../delegations/requests/certificate_fields.ts";
import { ApiError } from "../errors.ts";
import { checkNewName } from "../input/scripts.ts";
import type { AnyObject, Delegation, Platform } from "../operator/kinds.ts";
import { desiredAgent } from "../operator/reconcile/agent.ts";
import { desiredDelegation } from "../operator/reconcile/delegation.ts";
import { hasRequestedEndPassed } from "../operator/reconcile/delegation_rules.ts";
import { describedScopes, desiredPlatform } from "../operator/reconcile/platform.ts";
import { operatorCalls } from "../operator_calls.ts";
import { checkAcceptedScopes } from "../platforms/accepted_principals.ts";
import { checkCallbackUrl } from "../platforms/change_platform.ts";
import { checkSurface } from "../platforms/platform_record.ts";
import { checkRedirectUris } from "../platforms/redirect_uris.ts";
import { checkDescriptions } from "../platforms/scope_descriptions.ts";
import { CANONICAL_SCOPES, WILDCARDS } from "../protocol/documents/scope_vocabulary.ts";
import { CUSTOM_FORM, isRegistrableScope } from "../protocol/documents/scopes.ts";
import { ProtocolError } from "../protocol/encoding/errors.ts";
import { createAddressPolicy } from "../webhooks/callback_address.ts";
import { shown } from "./entries.ts";
import { nearest } from "./suggest.ts";

/** A fault or, with `isWarning`, something that may be a fault. `path` is the field in the object. */
export type Objection = {
  path: string;
  message: string;
  suggestion?: string | undefined;
  isWarning?: true;
};

/**
 * Returns what the API would object to in an object that its definition accepts. `former` is the object that
 * is declared now, if any. Its names stay valid.
 */
export function apiObjections(object: AnyObject, former: AnyObject | undefined, now: Date): Objection[] {
  return [...bodyObjections(object), ...rulesOf(object, former, now)];
}

/** In calls to the API, an account and ids stand for what only the service knows. */
const ACCOUNT = "owner@example.test";
const EXTERNAL_ID = "cluster.uid";

/** Names of the API's fields that differ from the object's fields by more than their spelling. */
const FIELDS: Readonly<Record<string, string>> = {
  name: "displayName",
  requested_scope: "scopes",
  expires_in: "ttl",
  human_id: "humanID",
  redirect_uris: "redirectURIs",
};

function bodyObjections(object: AnyObject): Objection[] {
  const [schema, body] = callOf(object);
  const { issues = [] } = schema.safeParse(body, { reportInput: false }).error ?? {};
  return issues.map(({ path, message }) => ({ path: `spec.${fieldPath(path)}`, message }));
}

function callOf(object: AnyObject): [schema: ZodType, body: unknown] {
  switch (object.kind) {
    case "Platform":
      return [operatorCalls.putPlatform.body, desiredPlatform(object, ACCOUNT)];
    case "Agent":
      return [operatorCalls.putAgent.body, desiredAgent(object, EXTERNAL_ID)];
    case "Delegation":
      return [operatorCalls.putDelegation.body, desiredDelegation(object, EXTERNAL_ID, EXTERNAL_ID)];
  }
}

function fieldPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>((above, part) => {
    if (typeof part === "number") return `${above}[${part}]`;
    const name = String(part);
    const field = FIELDS[name] ?? name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
    return above === "" ? field : `${above}.${field}`;
  }, "");
}

function rulesOf(object: AnyObject, former: AnyObject | undefined, now: Date): Objection[] {
  switch (object.kind) {
    case "Platform":
      return [...nameObjections(object, former), ...platformObjections(object)];
    case "Agent":
      return nameObjections(object, former);
    case "Delegation":
      return delegationObjections(object, now);
  }
}

function nameObjections({ kind, spec }: AnyObject, former: AnyObject | undefined): Objection[] {
  if (kind === "Delegation" || !("displayName" in spec) || spec.displayName === undefined) return [];
  const { displayName } = spec;
  const before = former !== undefined && "displayName" in former.spec ? former.spec.displayName : undefined;
  return refusals("spec.displayName", () => checkNewName(displayName, before));
}

function platformObjections({ spec }: Platform): Objection[] {
  const { surfaceType, defaultAllowedScopes, acceptedPrincipals = [], callbackUrl, redirectURIs = [] } = spec;
  return [
    ...refusals("spec.surfaceType", () => checkSurface(surfaceType)),
    ...scopeObjections("spec.defaultAllowedScopes", defaultAllowedScopes),
    ...acceptedPrincipals.flatMap(({ scopes }, index) => {
      const path = `spec.acceptedPrincipals[${index}].scopes`;
      const unknown = scopeObjections(path, scopes);
      return unknown.length > 0 ? unknown : refusals(path, () => checkAcceptedScopes(scopes));
    }),
    ...refusals("spec.scopeDescriptions", () =>
      checkDescriptions(defaultAllowedScopes, describedScopes(spec)),
    ),
    ...(callbackUrl === undefined ? [] : callbackObjections(callbackUrl)),
    ...redirectURIs.flatMap((uri, index) =>
      refusals(`spec.redirectURIs[${index}]`, () => checkRedirectUris([uri], null)),
    ),
  ];
}

const STRICT = createAddressPolicy({ development: false, allowedCidrs: [] });
const LENIENT = createAddressPolicy({ development: true, allowedCidrs: ["0.0.0.0/0", "::/0"] });

/** Warns about a URL that some installations accept: in development, or by `WEBHOOK_ALLOWED_CIDRS`. */
function callbackObjections(url: string): Objection[] {
  const path = "spec.callbackUrl";
  const always = refusals(path, () => checkCallbackUrl(url, LENIENT));
  if (always.length > 0) return always;
  return refusals(path, () => checkCallbackUrl(url, STRICT)).map(({ message }) => ({
    path,
    message: `${message}; only an installation for development, or one that allows the address, accepts it`,
    isWarning: true,
  }));
}

function delegationObjections(object: Delegation, now: Date): Objection[] {
  const { scopes, constraints = [] } = object.spec;
  const message = "has passed, so the operator requests nothing";
  return [
    ...scopeObjections("spec.scopes", scopes),
    ...refusals("spec.constraints", () => checkConstraints(constraints)),
    ...(hasRequestedEndPassed(object, now)
      ? [{ path: "spec.expiresAt", message, isWarning: true as const }]
      : []),
  ];
}

/** Returns an objection for each scope that nobody can register. */
function scopeObjections(path: string, scopes: readonly string[]): Objection[] {
  return scopes.flatMap((scope, index) => {
    if (isRegistrableScope(scope)) return [];
    const isCustom = scope.startsWith("custom:");
    const suggestion = isCustom ? undefined : nearest(scope, [...CANONICAL_SCOPES, ...WILDCARDS.keys()]);
    const message = `${shown(scope)} is neither in the vocabulary nor ${CUSTOM_FORM} of two to four parts`;
    return [{ path: `${path}[${index}]`, message, suggestion }];
  });
}

/** Returns why the API's own check refuses a value. */
function refusals(path: string, check: () => void): Objection[] {
  try {
    check();
    return [];
  } catch (error) {
    if (error instanceof ApiError || error instanceof ProtocolError) {
      return [{ path, message: error.message.replace(/^[a-z_]+: /, "") }];
    }
    throw error;
  }
}
