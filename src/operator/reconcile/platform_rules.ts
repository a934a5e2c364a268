import type { PlatformState } from "../../operator_calls.ts";
import { coversScopes, unregistrableScopes } from "../../protocol/documents/scopes.ts";
import { type Platform, reconcileRequest } from "../kinds.ts";
import { BINDINGS_NAME, type Binding, type BoundAccount } from "../namespace_bindings.ts";
import { isTrue } from "./conditions.ts";
import { isRotationDue, type PlatformSecrets } from "./platform_credentials.ts";
import { holdsIds, holdsKey, isOwnSecret, secretName } from "./platform_secret.ts";
import { firstOf, type StatusReason } from "./ready_reasons.ts";

/** The desired state of a Platform that this process last sent to the API, and the time of sending. */
export type LastSent = {
  generation: number;
  accountEmail: string;
  at: Date;
  reconcileRequest?: string | undefined;
};

/** The input for a decision about a Platform. `state` is absent if the API does not know the Platform. */
export type PlatformInput = {
  object: Platform;
  binding?: Binding | undefined;
  state?: PlatformState | undefined;
  secrets: PlatformSecrets;
  lastSent?: LastSent | undefined;
  apiUrl: string;
  now: Date;
  /** The time, if the clocks of operator and API agree. The age of a key counts only then. */
  agreed: Date | undefined;
};

/** The next step: register or update the Platform for this account, or only report the state. */
export type PlatformStep =
  | { step: "register"; account: BoundAccount }
  | { step: "report"; verdict: StatusReason };

type Rule = (input: PlatformInput) => StatusReason | undefined;

/** After this time, the desired state is sent again, which corrects changes that were made elsewhere. */
export const REPEAT_MS = 10 * 60 * 1000;

const suspended: Rule = ({ object }) =>
  object.spec.suspend === true ? { reason: "Suspended", message: "spec.suspend is true" } : undefined;

const removed: Rule = ({ state }) =>
  state?.removed === true
    ? { reason: "Revoked", message: "The connection was removed in the account" }
    : undefined;

const bound: Rule = ({ object, binding }) => {
  if (binding?.account !== undefined) return undefined;
  const { namespace } = object.metadata;
  const fault = binding === undefined ? "has no entry" : `has a faulty entry (${binding.fault})`;
  const source = binding?.source ?? BINDINGS_NAME;
  return { reason: "NamespaceNotBound", message: `Namespace ${namespace} ${fault} in ${source}` };
};

const scopesOf = ({ spec }: Platform): string[] => [
  ...spec.defaultAllowedScopes,
  ...(spec.acceptedPrincipals ?? []).flatMap(({ scopes }) => scopes),
];

const scopesValid: Rule = ({ object }) => {
  const invalid = unregistrableScopes(scopesOf(object));
  return invalid.length === 0
    ? undefined
    : { reason: "InvalidScopes", message: `Unknown scopes: ${invalid.join(", ")}` };
};

const withinCeiling: Rule = ({ object, binding }) => {
  const ceiling = binding?.account?.ceiling;
  const over = ceiling === undefined ? [] : coversScopes(ceiling, scopesOf(object));
  if (over.length === 0) return undefined;
  return { reason: "CeilingExceeded", message: `Scopes beyond the namespace's ceiling: ${over.join(", ")}` };
};

const secretFree: Rule = ({ object, secrets: { current } }) =>
  current === undefined || isOwnSecret(current, object) ? undefined : notOwned(object);

const rules: readonly Rule[] = [suspended, removed, bound, scopesValid, withinCeiling, secretFree];

/** Returns the next step for a Platform, by the first rule that applies. */
export function nextStep(input: PlatformInput): PlatformStep {
  const verdict = firstOf(rules, (rule) => rule(input));
  if (verdict !== undefined) return { step: "report", verdict };
  const account = input.binding?.account;
  if (account === undefined) throw new Error("The platform's account is missing");
  const { state } = input;
  const prefix = state?.api_key_prefix ?? undefined;
  if (state !== undefined && prefix !== undefined && isUpToDate(input, account, state, prefix)) {
    return { step: "report", verdict: active(input.object, prefix) };
  }
  return { step: "register", account };
}

/** Returns whether the state was sent recently for this account, and the Secret has the current key. */
function isUpToDate(
  { object, secrets: { current, former }, lastSent, apiUrl, now, agreed }: PlatformInput,
  { accountEmail }: BoundAccount,
  state: PlatformState,
  prefix: string,
): boolean {
  const { metadata, status } = object;
  if (lastSent === undefined || lastSent.generation !== metadata.generation) return false;
  if (lastSent.accountEmail !== accountEmail) return false;
  if (lastSent.reconcileRequest !== reconcileRequest(object)) return false;
  if (now.getTime() - lastSent.at.getTime() >= REPEAT_MS) return false;
  // The status lags behind if it could not be written after a rotation.
  if (!isTrue(status, "Ready") || status.apiKeyPrefix !== prefix || former !== undefined) return false;
  if (current === undefined || !holdsKey(current, object, prefix) || !holdsIds(current, state)) return false;
  return current.data.base_url === apiUrl && !isRotationDue(object, state, current, agreed);
}

/** Returns the verdict for a Platform whose Secret belongs to a different owner. */
export function notOwned(object: Platform): StatusReason {
  const message = `Secret ${secretName(object)} exists and is not this Platform's; it was left as it is`;
  return { reason: "SecretNotOwned", message };
}

/** Returns the verdict for a Platform whose credentials are published. */
export function active(object: Platform, prefix: string): StatusReason {
  return { reason: "Active", message: `Registered; Secret ${secretName(object)} holds API key ${prefix}` };
}
