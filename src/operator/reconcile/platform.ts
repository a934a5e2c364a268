import type { ScopeDescriptions } from "../../input/platform_fields.ts";
import { ClusterError } from "../../kubernetes/cluster_error.ts";
import type { DesiredPlatform } from "../../operator_calls.ts";
import type { ApiFailure, ApiResult } from "../api_transport.ts";
import type { OperatorContext } from "../context.ts";
import {
  type Platform,
  type PlatformSpec,
  type PlatformStatus,
  placeOf,
  reconcileRequest,
} from "../kinds.ts";
import type { Visit } from "../queue.ts";
import {
  definedOnly,
  type Fact,
  factsBeside,
  isOutage,
  isTrue,
  readiness,
  type Stated,
  visitIn,
  withFacts,
} from "./conditions.ts";
import { type Publication, publishCredentials, readSecrets, rotationDue } from "./platform_credentials.ts";
import { active, type LastSent, nextStep, notOwned, type PlatformInput } from "./platform_rules.ts";
import { holdsKey, isOwnSecret, lastRequest, secretName, versionOf } from "./platform_secret.ts";
import { recheckOf, type StatusReason } from "./ready_reasons.ts";
import { dependentsOfPlatform } from "./references.ts";
import { keptStatus, report, reportFailedWrite, reportFailure } from "./report_status.ts";
import { hasNothingToRelease, terminate } from "./termination.ts";

/** Reconciles a Platform. */
export type ReconcilePlatform = (
  context: OperatorContext,
  object: Platform,
  failures: number,
) => Promise<Visit>;

/** Creates a reconciler that remembers what it sent to the API. An unchanged Platform needs no call. */
export function createPlatformReconciler(): ReconcilePlatform {
  const lastSent = new Map<string, LastSent>();
  return async (context, object, failures) => {
    const { uid, deletionTimestamp } = object.metadata;
    if (deletionTimestamp === undefined) return reconcile(context, object, lastSent);
    lastSent.delete(uid);
    const dependents = dependentsOfPlatform(context.resources, object);
    return terminate(context, object, { dependents, release: () => release(context, object), failures });
  };
}

/** Milliseconds until the next look at the age of a key, while the clocks disagree. */
const DISAGREEMENT_MS = 60_000;

async function reconcile(
  context: OperatorContext,
  object: Platform,
  lastSent: Map<string, LastSent>,
): Promise<Visit> {
  const { resources, states, clock, apiUrl } = context;
  const { uid, namespace } = object.metadata;
  const found = await states.read(context.externalIdOf(object));
  const input: PlatformInput = {
    object,
    binding: resources.binding(namespace),
    state: found.value?.platform,
    secrets: await readSecrets(context, object),
    lastSent: lastSent.get(uid),
    apiUrl,
    now: clock.now(),
    agreed: clock.agreed(),
  };
  if (found.failure !== undefined) return failed(context, input, found.failure);
  const next = nextStep(input);
  if (next.step === "report") {
    const registered = input.state !== undefined && !input.state.removed;
    await report(context, object, platformStatus(input, next.verdict, { registered }), next.verdict);
    return visitIn(msUntilRotation(input) ?? recheckOf(next.verdict.reason));
  }
  const { accountEmail } = next.account;
  const visit = await register(context, input, accountEmail);
  if (visit.retry !== true) {
    const { generation } = object.metadata;
    lastSent.set(uid, {
      generation,
      accountEmail,
      at: input.now,
      reconcileRequest: reconcileRequest(object),
    });
  }
  return visit;
}

async function register(
  context: OperatorContext,
  input: PlatformInput,
  accountEmail: string,
): Promise<Visit> {
  const { object } = input;
  if (!(await context.resources.isCurrent(object))) return {};
  // Read after the object: a namespace cannot be created again while it contains objects.
  const uid = await context.resources.namespaceUid(object.metadata.namespace);
  const desired = {
    ...desiredPlatform(object, accountEmail),
    ...(uid !== undefined && { namespace_uid: uid }),
  };
  const { value, failure } = await context.api.putPlatform(context.externalIdOf(object), desired);
  if (failure !== undefined) return failed(context, input, failure);
  const sent = {
    registered: true,
    callbackUrl: desired.callback_url ?? undefined,
    redirectURIs: nonEmpty(desired.redirect_uris),
  };
  const published = await publishCredentials(context, object, value).catch((error: unknown) => {
    if (error instanceof ClusterError) return { kind: "unwritten", error } as const;
    throw error;
  });
  if (published.kind === "unwritten") {
    return reportFailedWrite(context, object, published.error, (verdict) =>
      platformStatus(input, verdict, { ...sent, isUnwritten: true }),
    );
  }
  if (published.kind === "raced") return { retry: true };
  if (published.kind === "failed") return failed(context, input, published.failure);
  if (published.kind === "not_owned") {
    const verdict = notOwned(object);
    await report(context, object, platformStatus(input, verdict, sent), verdict);
    return {};
  }
  const verdict = active(object, published.answer.api_key_prefix);
  await report(context, object, platformStatus(input, verdict, { ...sent, published }), verdict);
  const secrets = await readSecrets(context, object);
  return visitIn(msUntilRotation({ ...input, state: { ...published.answer, removed: false }, secrets }));
}

function nonEmpty(list: string[] | undefined): string[] | undefined {
  return list?.length === 0 ? undefined : list;
}

/**
 * Returns the body of the call that declares a Platform. It removes a callback URL and redirect URIs that
 * this object set before, but not those that were set elsewhere.
 */
export function desiredPlatform(object: Platform, accountEmail: string): DesiredPlatform {
  const { spec, status } = object;
  const callback = spec.callbackUrl ?? (status.callbackUrl === undefined ? undefined : null);
  const redirects = spec.redirectURIs ?? (status.redirectURIs === undefined ? undefined : []);
  return {
    object: placeOf(object),
    account_email: accountEmail,
    name: spec.displayName,
    description: spec.description ?? "",
    surface_type: spec.surfaceType,
    default_allowed_scopes: spec.defaultAllowedScopes,
    ...(spec.adopt === undefined ? {} : { adopt: spec.adopt }),
    ...(callback === undefined ? {} : { callback_url: callback }),
    ...(redirects === undefined ? {} : { redirect_uris: redirects }),
    accepted_principals: (spec.acceptedPrincipals ?? []).map(({ humanID, scopes, acceptedUntil }) => ({
      human_id: humanID,
      scopes,
      ...(acceptedUntil === undefined ? {} : { accepted_until: acceptedUntil }),
    })),
    scope_descriptions: describedScopes(spec),
    ...(spec.explanationValues === undefined ? {} : { explanation_values: spec.explanationValues }),
  };
}

/** Returns a Platform's words for custom scopes in the form of the API. */
export function describedScopes({ scopeDescriptions = [] }: PlatformSpec): ScopeDescriptions {
  return Object.fromEntries(
    scopeDescriptions.map(({ scope, label, description, sensitive = false }) => [
      scope,
      { label, description, sensitive },
    ]),
  );
}

async function release(context: OperatorContext, object: Platform): Promise<ApiResult<unknown>> {
  if (object.spec.deletionPolicy !== "Delete") return { value: undefined };
  const result = await context.api.removePlatform(context.externalIdOf(object));
  if (result.failure !== undefined && !hasNothingToRelease(result.failure)) return result;
  if (result.value?.removed === false) {
    return {
      failure: { kind: "unavailable", message: "The connections of its customers have not all ended" },
    };
  }
  const { current, former } = await readSecrets(context, object);
  for (const secret of [current, former]) {
    if (secret !== undefined && isOwnSecret(secret, object)) await context.resources.removeSecret(secret);
  }
  return { value: undefined };
}

function failed(context: OperatorContext, input: PlatformInput, failure: ApiFailure): Promise<Visit> {
  return reportFailure(context, input.object, failure, (verdict) =>
    isOutage(failure)
      ? unknownStatus(input, verdict)
      : platformStatus(input, verdict, { registered: input.state !== undefined }),
  );
}

function msUntilRotation({ object, state, secrets: { current }, agreed }: PlatformInput): number | undefined {
  if (state === undefined || current === undefined) return undefined;
  const due = rotationDue(object, state, current);
  if (due === undefined) return undefined;
  return agreed === undefined ? DISAGREEMENT_MS : Math.max(due.getTime() - agreed.getTime(), 1000);
}

type Known = {
  registered: boolean;
  published?: Extract<Publication, { kind: "published" }>;
  callbackUrl?: string | undefined;
  redirectURIs?: string[] | undefined;
  /** Whether a write of the Secret failed, so that its content is unknown. */
  isUnwritten?: true;
};

function platformStatus(
  { object, now, state, secrets: { current } }: PlatformInput,
  verdict: StatusReason,
  known: Known,
): Stated<PlatformStatus> {
  const { generation } = object.metadata;
  const { published, registered } = known;
  const { publish_state: publishState, customers } = published?.answer ?? state ?? {};
  const hasKey =
    published !== undefined ||
    (current !== undefined && holdsKey(current, object, state?.api_key_prefix ?? ""));
  const fact = factsBeside(verdict);
  const credentials: Fact =
    known.isUnwritten === true
      ? { type: "CredentialsPublished", status: "Unknown", reason: verdict.reason }
      : fact("CredentialsPublished", hasKey);
  const facts = [...readiness(verdict), fact("Registered", registered), credentials];
  return definedOnly<Stated<PlatformStatus>>({
    ...object.status,
    ...(published && {
      platformID: published.answer.platform_id,
      connectionID: published.answer.connection_id,
      apiKeyPrefix: published.answer.api_key_prefix,
      credentialsSecretName: secretName(object),
      credentialsIssuedAt: published.answer.api_key_issued_at,
      credentialsVersion: versionOf(published.secret),
      lastRotationRequest: lastRequest(object, published.answer, published.secret),
    }),
    ...("callbackUrl" in known ? { callbackUrl: known.callbackUrl } : {}),
    ...("redirectURIs" in known ? { redirectURIs: known.redirectURIs } : {}),
    ...(publishState === undefined ? {} : { publishState }),
    ...(customers === undefined ? {} : { customers }),
    observedGeneration: generation,
    conditions: withFacts(object.status.conditions ?? [], facts, { generation, now }),
  });
}

/** Returns the status while the API is unavailable: the former status with the new verdict. */
function unknownStatus({ object, now }: PlatformInput, verdict: StatusReason): Stated<PlatformStatus> {
  const unknown = ["Registered", "CredentialsPublished"].filter((type) => !isTrue(object.status, type));
  const facts = unknown.map((type): Fact => ({ type, status: "Unknown", reason: verdict.reason }));
  return keptStatus(object, [...readiness(verdict), ...facts], now);
}
