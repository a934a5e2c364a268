import { hasMembers } from "../accounts/member_role.ts";
import { addSeconds, type Clock } from "../clock.ts";
import type { Database, Transaction } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import {
  createWebhookSecret,
  newSigningSecret,
  signingSecretContext,
  webhookSecretContext,
} from "../events/secrets.ts";
import { newId } from "../ids.ts";
import { checkNewScopes } from "../input/ceiling.ts";
import type { ObjectPlace } from "../input/cluster_fields.ts";
import type { ExplanationValues, ScopeDescriptions } from "../input/platform_fields.ts";
import { checkNewName } from "../input/scripts.ts";
import type { SecretBox } from "../secret_box.ts";
import type { AddressPolicy } from "../webhooks/callback_address.ts";
import type { Owner } from "./account_owner.ts";
import { type NewApiKey, newApiKey, undeliveredContext } from "./api_keys/api_key.ts";
import { checkCallbackUrl } from "./change_platform.ts";
import { insertConnection } from "./connections/insert_connection.ts";
import { type CheckChange, checkSurface, findPlatform, type LivePlatform } from "./platform_record.ts";
import { checkRedirectUris } from "./redirect_uris.ts";
import { checkDescriptions } from "./scope_descriptions.ts";

const PLATFORM_LIFETIME_SECONDS = 365 * 24 * 3600;
const PERSONAL_PLATFORMS = 1;

/** Dependencies of registering platforms. */
export type RegisterDeps = { db: Database; secretBox: SecretBox; clock: Clock; callbacks: AddressPolicy };

/**
 * `externalId` and `object` name the Kubernetes object that declares the platform. `check` throws if the
 * object may no longer declare it.
 */
export type NewPlatform = {
  name: string;
  description: string;
  surfaceType: string;
  allowedScopes: readonly string[];
  callbackUrl: string | null;
  scopeDescriptions?: ScopeDescriptions | undefined;
  explanationValues?: ExplanationValues | undefined;
  redirectUris?: readonly string[] | undefined;
  externalId: string | null;
  object: ObjectPlace | null;
  check?: CheckChange;
};

/** The three secrets, which are shown once. */
export type Credentials = { api_key: string; signing_secret: string; webhook_signing_secret: string };

/** A registered platform and its secrets. */
export type Registered = { record: LivePlatform; credentials: Credentials };

type Draft = {
  platformId: string;
  connectionId: string;
  credentials: Credentials;
  owner: Owner;
  platform: NewPlatform;
  key: NewApiKey;
};

/**
 * Registers a platform with its connection, its first API key and two secrets, and emits
 * `connection.created`, in one transaction. Nothing that can fail follows the commit, because the secrets
 * cannot be shown again. A personal account has at most one platform, even with concurrent calls.
 *
 * Throws `surface_not_available`, `invalid_request`, `invalid_scopes`, `invalid_callback_url`,
 * `invalid_redirect_uri`, `platform_limit`, and `external_conflict` if the external id is taken.
 */
export async function registerPlatform(
  deps: RegisterDeps,
  owner: Owner,
  platform: NewPlatform,
): Promise<Registered> {
  checkSurface(platform.surfaceType);
  checkNewName(platform.name);
  const allowedScopes = checkNewScopes(platform.allowedScopes);
  checkDescriptions(allowedScopes, platform.scopeDescriptions ?? {});
  if (platform.callbackUrl !== null) checkCallbackUrl(platform.callbackUrl, deps.callbacks);
  checkRedirectUris(platform.redirectUris ?? [], null);
  const draft = draftOf(owner, { ...platform, allowedScopes });
  const record = await deps.db.transaction(async (tx) => {
    await checkLimits(tx, draft);
    await platform.check?.(tx);
    await insertRows(tx, deps, draft);
    return findPlatform(tx, owner.accountId, draft.platformId);
  });
  return { record, credentials: draft.credentials };
}

function draftOf(owner: Owner, platform: NewPlatform): Draft {
  const key = newApiKey();
  return {
    owner,
    platform,
    key,
    platformId: newId(),
    connectionId: newId(),
    credentials: {
      api_key: key.apiKey,
      signing_secret: newSigningSecret(),
      webhook_signing_secret: createWebhookSecret(),
    },
  };
}

/** The lock makes concurrent registrations for an account wait, so that each counts the earlier platforms. */
async function checkLimits(tx: Transaction, { owner, platform }: Draft): Promise<void> {
  await tx("accounts").select("account_id").where({ account_id: owner.accountId }).forNoKeyUpdate();
  // A person may have deleted the account after the call began.
  if (!(await hasMembers(tx, owner.accountId))) throw new ApiError("not_found");
  if (platform.externalId !== null) {
    const taken = await tx("platforms").where({ external_id: platform.externalId }).first("platform_id");
    if (taken !== undefined) throw new ApiError("external_conflict");
  }
  if (owner.accountType === "organization") return;
  const live = await tx("platforms")
    .select("platform_id")
    .where({ account_id: owner.accountId })
    .whereNull("removed_at")
    .limit(PERSONAL_PLATFORMS);
  if (live.length >= PERSONAL_PLATFORMS) throw new ApiError("platform_limit");
}

async function insertRows(tx: Transaction, { secretBox, clock }: RegisterDeps, draft: Draft): Promise<void> {
  const { owner, platform, key, platformId, connectionId, credentials } = draft;
  const now = clock.now();
  const inserted = await tx("platforms")
    .insert({
      platform_id: platformId,
      account_id: owner.accountId,
      name: platform.name,
      description: platform.description,
      surface_type: platform.surfaceType,
      default_allowed_scopes: [...platform.allowedScopes],
      scope_descriptions: platform.scopeDescriptions ?? {},
      redirect_uris: [...new Set(platform.redirectUris)],
      signing_secret_sealed: secretBox.box(credentials.signing_secret, signingSecretContext(platformId)),
      external_id: platform.externalId,
      object_namespace: platform.object?.namespace ?? null,
      object_name: platform.object?.name ?? null,
      created_at: now,
      expires_at: addSeconds(now, PLATFORM_LIFETIME_SECONDS),
    })
    .onConflict()
    .ignore()
    .returning("platform_id");
  if (inserted.length === 0) {
    throw new ApiError("external_conflict", "The platform is registered for another account");
  }
  const { webhook_signing_secret: webhookSecret } = credentials;
  await insertConnection(
    tx,
    secretBox,
    {
      connection_id: connectionId,
      account_id: owner.accountId,
      platform_id: platformId,
      ...(platform.explanationValues && { explanation_values: platform.explanationValues }),
      callback_url: platform.callbackUrl,
      webhook_secret_sealed: secretBox.box(webhookSecret, webhookSecretContext(connectionId)),
      undelivered_sealed:
        platform.externalId === null ? null : secretBox.box(key.apiKey, undeliveredContext(connectionId)),
      created_at: now,
    },
    {
      platformId,
      orgId: owner.accountId,
      orgName: owner.orgName,
      ...{ allowedScopes: platform.allowedScopes, callbackUrl: platform.callbackUrl, webhookSecret, key },
    },
  );
}
