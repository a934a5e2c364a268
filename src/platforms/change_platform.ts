import type { Clock } from "../clock.ts";
import type { Database, Transaction } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { checkScopes, checkShrinks } from "../input/ceiling.ts";
import type { ExplanationValues, ScopeDescriptions } from "../input/platform_fields.ts";
import { checkNewName } from "../input/scripts.ts";
import { expandScopes } from "../protocol/documents/scopes.ts";
import { type AddressPolicy, callbackUrlForm } from "../webhooks/callback_address.ts";
import { endpointIdOf, endSuspension, endWait } from "../webhooks/endpoint.ts";
import { narrowCertificates } from "./end_authority.ts";
import {
  type ConnectionPlace,
  findConnection,
  findPlatform,
  type LivePlatform,
  lockConnection,
  lockCustomers,
  type PlatformPlace,
} from "./platform_record.ts";
import { checkRedirectUris } from "./redirect_uris.ts";
import { checkDescriptions, pickDescriptions } from "./scope_descriptions.ts";
import { syncVault, type VaultSyncDeps } from "./sync_vault.ts";

/** A change of a platform. Omitted members stay unchanged. */
type PlatformChange = {
  name?: string | undefined;
  description?: string | undefined;
  default_allowed_scopes?: readonly string[] | undefined;
  scope_descriptions?: ScopeDescriptions | undefined;
  explanation_values?: ExplanationValues | undefined;
  redirect_uris?: readonly string[] | undefined;
};

/**
 * Changes a platform's name, description, ceiling, redirect URIs or words for custom scopes, or how
 * explanations of later denials keep values.
 *
 * Requests keep the words from when they were made. The ceiling can only shrink, and the words for a removed
 * scope are removed too. Certificates remain as issued, but from the commit on, their scopes above the new
 * ceiling no longer count, even while the vault is unavailable. Throws `not_found`, `invalid_request`,
 * `invalid_scopes`, `ceiling_widened`, `invalid_redirect_uri`.
 */
export async function changePlatform(
  deps: VaultSyncDeps & { clock: Clock },
  { accountId, platformId, check }: PlatformPlace,
  change: PlatformChange,
): Promise<LivePlatform> {
  const { connection_id } = await findPlatform(deps.db, accountId, platformId);
  const changed = await deps.db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    const record = await findPlatform(tx, accountId, platformId);
    if (change.name !== undefined) checkNewName(change.name, record.name);
    await check?.(tx);
    const { ceiling, next } = changedFields(record, change);
    const { explanation_values = record.explanation_values } = change;
    await tx("platforms").where({ platform_id: platformId }).update(next);
    if (explanation_values !== record.explanation_values) {
      await tx("connections").where({ connection_id }).update({ explanation_values });
    }
    if (ceiling) await narrowAuthority(tx, record, ceiling, deps.clock.now());
    return { ...record, ...next, explanation_values };
  });
  await syncVault(deps, connection_id);
  return changed;
}

/** Returns the platform's changed fields, and the new ceiling if the change names one. */
function changedFields(record: LivePlatform, change: PlatformChange) {
  const ceiling = change.default_allowed_scopes && checkScopes(change.default_allowed_scopes);
  if (ceiling) checkShrinks(record.default_allowed_scopes, ceiling);
  const scopes = ceiling ?? record.default_allowed_scopes;
  if (change.scope_descriptions) checkDescriptions(scopes, change.scope_descriptions);
  if (change.redirect_uris) checkRedirectUris(change.redirect_uris, record.published_domain);
  const next = {
    name: change.name ?? record.name,
    description: change.description ?? record.description,
    default_allowed_scopes: scopes,
    scope_descriptions: change.scope_descriptions ?? pickDescriptions(record.scope_descriptions, scopes),
    redirect_uris: [...new Set(change.redirect_uris ?? record.redirect_uris)],
  };
  return { ceiling, next };
}

/** Changes the certificates last, because decisions on these certificates wait from then until the commit. */
async function narrowAuthority(
  tx: Transaction,
  record: LivePlatform,
  ceiling: readonly string[],
  now: Date,
): Promise<void> {
  const expanded = expandScopes(ceiling);
  if (expanded.length === expandScopes(record.default_allowed_scopes).length) return;
  const customers = await lockCustomers(tx, record.platform_id);
  const connections = [record.connection_id, ...customers];
  await tx("agents")
    .whereRaw("connection_id = any (?::uuid[])", [connections])
    .whereNull("disabled_at")
    .update({ vault_due_at: now });
  await narrowCertificates(tx, connections, expanded);
}

/**
 * Checks the form of a callback URL in `field` and throws `invalid_callback_url`. The URL must be https
 * (outside development), without a user, a password or characters that a URL parser silently drops. It must
 * not name this machine or a literal address, unless the policy allows that. The addresses behind its host
 * name are checked at every delivery.
 */
export function checkCallbackUrl(text: string, policy: AddressPolicy, field = "callback_url"): void {
  const form = callbackUrlForm(text, policy);
  if ("refused" in form) throw new ApiError("invalid_callback_url", `${field}: ${form.refused}`);
  if (/[\s\p{Cc}]/u.test(text)) {
    throw new ApiError(
      "invalid_callback_url",
      `${field}: must not contain white space or control characters`,
    );
  }
}

/**
 * Sets the URL that receives a connection's new and undelivered events, or clears it with `null`. A suspended
 * endpoint is resumed, and one that waited for a URL, but an endpoint that its owner paused stays paused.
 * Throws `invalid_callback_url`, `not_found`.
 */
export async function setCallback(
  { db, callbacks, clock }: { db: Database; callbacks: AddressPolicy; clock: Clock },
  { accountId, connectionId, check }: ConnectionPlace,
  callbackUrl: string | null,
): Promise<void> {
  const { connection_id } = await findConnection(db, accountId, connectionId);
  if (callbackUrl !== null) checkCallbackUrl(callbackUrl, callbacks);
  await db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    await findConnection(tx, accountId, connection_id);
    await check?.(tx);
    await tx("connections").where({ connection_id }).update({ callback_url: callbackUrl });
    if (callbackUrl === null) return;
    await endSuspension(tx, connection_id, "replay", clock.now());
    await endWait(tx, endpointIdOf(connection_id), clock.now());
  });
}
