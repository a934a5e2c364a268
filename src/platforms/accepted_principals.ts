import { requireRole } from "../accounts/member_role.ts";
import type { Clock } from "../clock.ts";
import type { Database, Transaction } from "../db/database.ts";
import type { AcceptedPrincipalRow } from "../db/tables.ts";
import { ApiError } from "../errors.ts";
import { checkScopes, named } from "../input/ceiling.ts";
import { MAX_ACCEPTED_PRINCIPALS } from "../input/platform_fields.ts";
import { expandScopes, isCustomWildcard } from "../protocol/documents/scopes.ts";
import { findPlatform, lockConnection, type PlatformPlace } from "./platform_record.ts";

/** A platform of an account. `by` is the owner who makes the change, and absent if an object declares it. */
type Place = PlatformPlace & { by?: string };

/** An accepted root identity of another account, with its scopes. `acceptedUntil: null` means no expiry. */
export type Acceptance = { humanId: string; scopes: readonly string[]; acceptedUntil: Date | null };

type Deps = { db: Database; clock: Clock };

/**
 * Accepts a principal at a platform, or changes the scopes and expiry of an existing acceptance. Throws
 * `not_found` (also for a principal that is not in the registry), `invalid_scopes`, `invalid_expiry`,
 * `invalid_principal`, `principal_limit`, and `forbidden` if `by` is no longer an owner.
 */
export async function acceptPrincipal(
  deps: Deps,
  place: Place & { by: string },
  acceptance: Acceptance,
): Promise<AcceptedPrincipalRow> {
  return change(deps, place, async (tx, connectionId, now) => {
    if (acceptance.acceptedUntil !== null && acceptance.acceptedUntil <= now) {
      throw new ApiError("invalid_expiry");
    }
    const known = await tx("accounts").where({ human_id: acceptance.humanId }).first("account_id");
    if (known === undefined) throw new ApiError("not_found");
    await checkAcceptances(tx, place.accountId, [acceptance]);
    const [row] = rowsOf({ ...place, connectionId, now }, [acceptance]);
    await tx("accepted_principals")
      .insert(row as AcceptedPrincipalRow)
      .onConflict(["connection_id", "human_id"])
      .merge(CHANGED);
    const [counted] = await tx("accepted_principals").where({ connection_id: connectionId }).count();
    if (Number(counted?.count) > MAX_ACCEPTED_PRINCIPALS) throw new ApiError("principal_limit");
    const kept = await tx("accepted_principals")
      .where({ connection_id: connectionId, human_id: acceptance.humanId })
      .first();
    return kept as AcceptedPrincipalRow;
  });
}

/**
 * Replaces all accepted principals of a platform, or none of them. The call may be repeated at any time.
 * Returns the number of principals that are accepted now: expired acceptances do not count. Throws
 * `not_found`, what {@link checkAcceptances} throws, and `forbidden` if `by` is no longer an owner.
 */
export async function replaceAcceptedPrincipals(
  deps: Deps,
  place: Place,
  acceptances: readonly Acceptance[],
): Promise<number> {
  return change(deps, place, async (tx, connectionId, now) => {
    await checkAcceptances(tx, place.accountId, acceptances);
    const known = await tx("accepted_principals").where({ connection_id: connectionId });
    const knownById = new Map(known.map((row) => [row.human_id, row]));
    const rows = rowsOf({ ...place, connectionId, now }, acceptances);
    const listed = new Set(rows.map(({ human_id }) => human_id));
    const ended = known.map(({ human_id }) => human_id).filter((id) => !listed.has(id));
    const changed = rows.filter((row) => !isSame(row, knownById.get(row.human_id)));
    if (ended.length > 0) {
      await tx("accepted_principals")
        .where({ connection_id: connectionId })
        .whereIn("human_id", ended)
        .delete();
    }
    if (changed.length > 0) {
      await tx("accepted_principals")
        .insert(changed)
        .onConflict(["connection_id", "human_id"])
        .merge(CHANGED);
    }
    return acceptances.filter(({ acceptedUntil }) => acceptedUntil === null || acceptedUntil > now).length;
  });
}

/** Columns that a repeated acceptance replaces. The last owner who accepted a principal answers for it. */
const CHANGED: (keyof AcceptedPrincipalRow)[] = ["scopes", "granted_scope", "accepted_until", "accepted_by"];

function isSame(row: AcceptedPrincipalRow, known: AcceptedPrincipalRow | undefined): boolean {
  return (
    JSON.stringify(row.scopes) === JSON.stringify(known?.scopes) &&
    row.accepted_until?.getTime() === known?.accepted_until?.getTime() &&
    row.accepted_by === known?.accepted_by
  );
}

/**
 * Throws `invalid_scopes`, or `principal_limit` for too many principals. Throws `invalid_principal` for a
 * principal that is listed twice, is not in the registry, or is the account itself.
 */
export async function checkAcceptances(
  db: Database | Transaction,
  accountId: string,
  acceptances: readonly Acceptance[],
): Promise<void> {
  if (acceptances.length > MAX_ACCEPTED_PRINCIPALS) throw new ApiError("principal_limit");
  for (const { scopes } of acceptances) checkAcceptedScopes(scopes);
  await checkPrincipals(
    db,
    accountId,
    acceptances.map(({ humanId }) => humanId),
  );
}

/** Ends the acceptance of a principal. After the commit, no decision relies on it. Throws `not_found`. */
export async function endAcceptance(deps: Deps, place: PlatformPlace, humanId: string): Promise<void> {
  await change(deps, place, async (tx, connectionId) => {
    const ended = await tx("accepted_principals")
      .where({ connection_id: connectionId, human_id: humanId })
      .delete();
    if (ended === 0) throw new ApiError("not_found");
  });
}

async function change<T>(
  { db, clock }: Deps,
  { accountId, platformId, check, by }: Place,
  work: (tx: Transaction, connectionId: string, now: Date) => Promise<T>,
): Promise<T> {
  const { connection_id } = await findPlatform(db, accountId, platformId);
  return db.transaction(async (tx) => {
    await lockConnection(tx, connection_id);
    await findPlatform(tx, accountId, platformId);
    await check?.(tx);
    if (by !== undefined) await requireRole(tx, accountId, by, ["owner"]);
    return work(tx, connection_id, clock.now());
  });
}

function rowsOf(
  { accountId, connectionId, now, by }: Place & { connectionId: string; now: Date },
  acceptances: readonly Acceptance[],
): AcceptedPrincipalRow[] {
  return acceptances.map(({ humanId, scopes, acceptedUntil }) => {
    const checked = checkAcceptedScopes(scopes);
    return {
      account_id: accountId,
      connection_id: connectionId,
      human_id: humanId,
      scopes: checked,
      granted_scope: expandScopes(checked),
      accepted_until: acceptedUntil,
      created_at: now,
      accepted_by: by ?? null,
    };
  });
}

/**
 * Removes duplicates. Throws `invalid_scopes`, also for a wildcard over custom scopes: each account defines
 * the meaning of its own custom scopes, so a wildcard would accept scopes that nobody here has read.
 */
export function checkAcceptedScopes(scopes: readonly string[]): string[] {
  const checked = checkScopes(scopes);
  const wide = checked.filter(isCustomWildcard);
  if (wide.length === 0) return checked;
  throw new ApiError(
    "invalid_scopes",
    `Name each custom scope of another account; wildcards are not accepted: ${named(wide)}`,
  );
}

async function checkPrincipals(
  db: Database | Transaction,
  accountId: string,
  humanIds: string[],
): Promise<void> {
  const refuse = (isFault: (id: string, at: number) => boolean, why: string) => {
    const at = humanIds.findIndex(isFault);
    if (at !== -1) throw new ApiError("invalid_principal", `accepted_principals[${at}]: ${why}`);
  };
  if (humanIds.length === 0) return;
  refuse((id, at) => humanIds.indexOf(id) !== at, "is listed twice");
  const known = await db("accounts").whereIn("human_id", humanIds).select("human_id", "account_id");
  const accountOf = new Map(known.map(({ human_id, account_id }) => [human_id, account_id]));
  refuse((id) => !accountOf.has(id), "is not a root identity of the registry");
  refuse(
    (id) => accountOf.get(id) === accountId,
    "is this account's own root identity, which is always accepted",
  );
}
