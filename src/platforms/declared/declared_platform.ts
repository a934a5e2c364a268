import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../../clock.ts";
import type { NamespacePlace } from "../../clusters/namespace_binding.ts";
import type { Database, Transaction } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import { signingSecretContext, webhookSecretContext } from "../../events/secrets.ts";
import type { ObjectPlace } from "../../input/cluster_fields.ts";
import type { ExplanationValues, ScopeDescriptions } from "../../input/platform_fields.ts";
import type { ActionLimits } from "../../rates/action_limits.ts";
import type { SecretBox } from "../../secret_box.ts";
import { type Acceptance, checkAcceptances, replaceAcceptedPrincipals } from "../accepted_principals.ts";
import { undeliveredContext } from "../api_keys/api_key.ts";
import { changePlatform, checkCallbackUrl, setCallback } from "../change_platform.ts";
import {
  type CheckChange,
  findPlatform,
  isLive,
  type LivePlatform,
  lockConnection,
  type PlatformRecord,
  selectPlatforms,
} from "../platform_record.ts";
import { checkRedirectUris } from "../redirect_uris.ts";
import { type Credentials, type RegisterDeps, registerPlatform } from "../register_platform.ts";
import type { VaultSyncDeps } from "../sync_vault.ts";
import { adoptPlatform } from "./adopt_platform.ts";
import { type BoundOwner, bindingCheck, checkWithinBinding, findBoundOwner } from "./bound_owner.ts";

/**
 * A platform as a Kubernetes object declares it. An omitted callback, list of redirect URIs or accepted
 * principals, or map of words for scopes stays unchanged. `adopt` is an existing platform that the object
 * takes over.
 */
export type DeclaredPlatform = {
  externalId: string;
  clusterId: string;
  object: ObjectPlace;
  namespaceUid?: string | undefined;
  accountEmail: string;
  name: string;
  description: string;
  surfaceType: string;
  allowedScopes: readonly string[];
  callbackUrl?: string | null | undefined;
  scopeDescriptions?: ScopeDescriptions | undefined;
  explanationValues?: ExplanationValues | undefined;
  redirectUris?: readonly string[] | undefined;
  adopt?: string | undefined;
  acceptedPrincipals?: readonly Acceptance[] | undefined;
};

/** Dependencies of applying declared platforms. */
export type DeclareDeps = RegisterDeps & VaultSyncDeps & { clock: Clock; actionLimits: ActionLimits };

/**
 * Registers a declared platform the first time, and changes it later under the same rules as users' changes.
 * The call may be repeated at any time.
 *
 * Throws what {@link registerPlatform}, {@link changePlatform} and {@link checkAcceptances} throw, and
 * `namespace_not_bound`, `ceiling_exceeded`, `adoption_not_confirmed`, `action_limited`. Throws
 * `external_conflict` if the platform was removed, or if the object was registered for a different account,
 * surface, namespace, name or platform.
 */
export async function putPlatform(deps: DeclareDeps, declared: DeclaredPlatform): Promise<LivePlatform> {
  const { acceptedPrincipals = [] } = declared;
  const place = placeOf(declared);
  const { owner, binding } = await findBoundOwner(deps, declared.accountEmail, place);
  await checkAcceptances(deps.db, owner.accountId, acceptedPrincipals);
  const acceptedScopes = acceptedPrincipals.flatMap(({ scopes }) => scopes);
  checkWithinBinding(binding, [...declared.allowedScopes, ...acceptedScopes]);
  const record = await putRegistration(deps, { owner, binding }, declared);
  if (declared.acceptedPrincipals !== undefined) {
    const { accountId } = owner;
    const check = bindingCheck(accountId, place, acceptedScopes);
    const platform = { accountId, platformId: record.platform_id, check };
    await replaceAcceptedPrincipals(deps, platform, declared.acceptedPrincipals);
  }
  return record;
}

function placeOf({ clusterId, object, namespaceUid }: DeclaredPlatform): NamespacePlace {
  return { clusterId, namespace: object.namespace, uid: namespaceUid };
}

async function putRegistration(
  deps: DeclareDeps,
  bound: BoundOwner,
  declared: DeclaredPlatform,
): Promise<LivePlatform> {
  const { owner, binding } = bound;
  const { accountId } = owner;
  const { clusterId, object } = declared;
  const check = bindingCheck(accountId, placeOf(declared), declared.allowedScopes);
  const registered = await findDeclaredPlatform(deps.db, declared.externalId);
  if (registered !== undefined) return changeDeclared(deps, { accountId, check }, registered, declared);
  checkAddresses(deps, declared);
  await adoptPlatform(deps, { ...declared, binding, check });
  const adopted = await findDeclaredPlatform(deps.db, declared.externalId);
  if (adopted !== undefined) return changeDeclared(deps, { accountId, check }, adopted, declared);
  try {
    const platform = { ...declared, callbackUrl: declared.callbackUrl ?? null, check };
    const named = [accountId, clusterId, object.namespace, object.name];
    const { record } = await deps.actionLimits.within("register_platform", named, () =>
      registerPlatform(deps, owner, platform),
    );
    return record;
  } catch (error) {
    if (!(error instanceof ApiError && error.code === "external_conflict")) throw error;
    const winner = await findDeclaredPlatform(deps.db, declared.externalId);
    if (winner === undefined) throw error;
    return changeDeclared(deps, { accountId, check }, winner, declared);
  }
}

async function changeDeclared(
  deps: DeclareDeps,
  account: { accountId: string; check: CheckChange },
  known: PlatformRecord,
  declared: DeclaredPlatform,
): Promise<LivePlatform> {
  if (known.account_id !== account.accountId) {
    throw new ApiError("external_conflict", "The platform is registered for another account");
  }
  if (known.surface_type !== declared.surfaceType) {
    throw new ApiError("external_conflict", "surface_type cannot change");
  }
  if (!isLive(known)) throw new ApiError("external_conflict", "The platform was removed");
  if (declared.adopt !== undefined && declared.adopt !== known.platform_id) {
    throw new ApiError(
      "external_conflict",
      `The object is already registered as platform ${known.platform_id}`,
    );
  }
  const { object } = declared;
  await checkPlace(deps.db, known, object);
  const { callbackUrl } = declared;
  checkAddresses(deps, declared);
  if (differs(known, declared)) {
    await changePlatform(
      deps,
      { ...account, platformId: known.platform_id },
      {
        name: declared.name,
        description: declared.description,
        default_allowed_scopes: declared.allowedScopes,
        scope_descriptions: declared.scopeDescriptions,
        explanation_values: declared.explanationValues,
        redirect_uris: declared.redirectUris,
      },
    );
  }
  if (callbackUrl !== undefined && callbackUrl !== known.callback_url) {
    await setCallback(deps, { ...account, connectionId: known.connection_id }, callbackUrl);
  }
  return findPlatform(deps.db, account.accountId, known.platform_id);
}

/** Refuses addresses before the object takes over a platform. A published platform allows fewer of them. */
function checkAddresses({ callbacks }: DeclareDeps, { callbackUrl, redirectUris }: DeclaredPlatform): void {
  if (callbackUrl != null) checkCallbackUrl(callbackUrl, callbacks);
  checkRedirectUris(redirectUris ?? [], null);
}

/** A platform that was registered before namespace and name were stored gets those of this object. */
async function checkPlace(db: Database, known: LivePlatform, object: ObjectPlace): Promise<void> {
  const place = { object_namespace: object.namespace, object_name: object.name };
  const noted = { object_namespace: known.object_namespace, object_name: known.object_name };
  if (known.object_namespace === null) {
    await db("platforms").where({ platform_id: known.platform_id }).update(place);
  } else if (!isDeepStrictEqual(noted, place)) {
    throw new ApiError(
      "external_conflict",
      "The platform is registered for an object with another namespace or name",
    );
  }
}

function differs(known: LivePlatform, declared: DeclaredPlatform): boolean {
  const {
    scopeDescriptions = known.scope_descriptions,
    explanationValues = known.explanation_values,
    redirectUris = known.redirect_uris,
  } = declared;
  return (
    !isDeepStrictEqual(known.redirect_uris, redirectUris) ||
    !isDeepStrictEqual(known.scope_descriptions, scopeDescriptions) ||
    known.explanation_values !== explanationValues ||
    known.name !== declared.name ||
    known.description !== declared.description ||
    JSON.stringify(known.default_allowed_scopes) !== JSON.stringify(declared.allowedScopes)
  );
}

/** Returns the platform that an object declares, removed or not. */
export async function findDeclaredPlatform(
  db: Database | Transaction,
  externalId: string,
): Promise<PlatformRecord | undefined> {
  const [record] = await selectPlatforms(db).where({ "p.external_id": externalId }).limit(1);
  return record;
}

/** Returns the platform that an object declares. Throws `not_found` if there is none or if it was removed. */
export async function requireDeclaredPlatform(
  db: Database | Transaction,
  externalId: string,
): Promise<LivePlatform> {
  const record = await findDeclaredPlatform(db, externalId);
  if (record === undefined || !isLive(record)) throw new ApiError("not_found");
  return record;
}

/** Throws `external_conflict` if the object and its platform are in different namespaces. */
export function requireSamePlace({ object_namespace }: LivePlatform, { namespace }: ObjectPlace): void {
  if (object_namespace === namespace) return;
  throw new ApiError("external_conflict", "The platform is declared in another namespace");
}

/** Returns a connection's three secrets, or `null` once the operator has confirmed that it stored them. */
export async function undeliveredCredentials(
  { db, secretBox }: { db: Database; secretBox: SecretBox },
  { platform_id, connection_id }: LivePlatform,
): Promise<Credentials | null> {
  const row = await db("connections as c")
    .join("platforms as p", "p.platform_id", "c.platform_id")
    .where({ "c.connection_id": connection_id })
    .first("c.undelivered_sealed", "c.webhook_secret_sealed", "p.signing_secret_sealed");
  if (!row?.undelivered_sealed) return null;
  return {
    api_key: secretBox.unbox(row.undelivered_sealed, undeliveredContext(connection_id)),
    signing_secret: secretBox.unbox(row.signing_secret_sealed, signingSecretContext(platform_id)),
    webhook_signing_secret: secretBox.unbox(row.webhook_secret_sealed, webhookSecretContext(connection_id)),
  };
}

/**
 * Records that the operator has stored the credentials with this key. After that, nobody can retrieve them.
 * Throws `not_found`, or `external_conflict` if a different key is current.
 */
export async function acknowledgeCredentials(
  db: Database,
  externalId: string,
  keyPrefix: string,
): Promise<void> {
  const { connection_id } = await requireDeclaredPlatform(db, externalId);
  await db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    const current = await requireDeclaredPlatform(tx, externalId);
    if (current.api_key_prefix !== keyPrefix) {
      throw new ApiError("external_conflict", "Another API key is current; read the platform again");
    }
    await tx("connections").where({ connection_id }).update({ undelivered_sealed: null });
  });
}
