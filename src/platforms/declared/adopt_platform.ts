import type { Clock } from "../../clock.ts";
import type { NamespaceBindingRow } from "../../db/cluster_tables.ts";
import type { Database, Transaction } from "../../db/database.ts";
import { sqlState, UNIQUE_VIOLATION } from "../../db/errors.ts";
import type { PlatformRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import { checkScopes, checkShrinks } from "../../input/ceiling.ts";
import type { ObjectPlace } from "../../input/cluster_fields.ts";
import type { CheckChange } from "../platform_record.ts";
import { notConfirmed, noteTakenOver, requireNotReleased, useConfirmation } from "./adoption.ts";

type Deps = { db: Database; clock: Clock };

/** An object that is not registered yet. */
type Newcomer = {
  binding: NamespaceBindingRow;
  externalId: string;
  clusterId: string;
  object: ObjectPlace;
  surfaceType: string;
  allowedScopes: readonly string[];
  adopt?: string | undefined;
  /** Throws unless the account accepts the namespace until the transaction ends. */
  check: CheckChange;
};

/**
 * Assigns a platform to an object that is not registered yet. With `adopt`, this is the platform that the
 * object names, if the platform's owner has confirmed the adoption. Without `adopt`, it is the platform that
 * a deleted object of the same name left behind. If there is none, the caller registers a new platform.
 * Throws what `check` throws, `adoption_not_confirmed`, `external_conflict`, `invalid_scopes`,
 * `ceiling_widened`.
 */
export async function adoptPlatform(deps: Deps, newcomer: Newcomer): Promise<void> {
  if (newcomer.adopt !== undefined) return takeOver(deps, newcomer, newcomer.adopt);
  await requireNotReleased(deps.db, newcomer.externalId);
  await noteCeiling(deps.db, newcomer);
  await deps.db.transaction((tx) => takeLeftBehind(tx, newcomer));
}

/** Takes over the platform of a deleted object with this name, which only one object at a time can have. */
async function takeLeftBehind(
  tx: Transaction,
  { binding: { account_id }, externalId, clusterId, object, surfaceType, check }: Newcomer,
): Promise<void> {
  await check(tx);
  await tx("platforms")
    .where({ account_id, surface_type: surfaceType, ...columnsOf(object) })
    .whereNull("removed_at")
    .whereLike("external_id", `${clusterId}.%`)
    .update({ external_id: externalId });
}

async function takeOver({ db, clock }: Deps, newcomer: Newcomer, platformId: string): Promise<void> {
  const { binding, externalId, object, allowedScopes } = newcomer;
  const own = { account_id: binding.account_id, platform_id: platformId };
  const taking = db.transaction(async (tx) => {
    await newcomer.check(tx);
    const platform = await tx("platforms").where(own).whereNull("removed_at").forUpdate().first();
    if (platform?.external_id === externalId) return;
    const adopted = { accountId: binding.account_id, kind: "platform", id: platformId } as const;
    if (platform === undefined) throw notConfirmed(adopted, newcomer);
    if (!isLeftBehind(platform, newcomer)) {
      await useConfirmation(tx, adopted, newcomer);
      await keepCeiling(tx, newcomer, platform.default_allowed_scopes);
      await noteTakenOver(tx, platform.external_id, clock.now());
    }
    if (platform.surface_type !== newcomer.surfaceType) {
      throw new ApiError("external_conflict", `Platform ${platformId} has another surface_type`);
    }
    checkShrinks(platform.default_allowed_scopes, allowedScopes);
    await tx("platforms")
      .where(own)
      .update({ external_id: externalId, ...columnsOf(object) });
  });
  return taking.catch((error: unknown) => {
    if (sqlState(error) !== UNIQUE_VIOLATION) throw error;
    throw new ApiError("external_conflict", "Another platform of the account is declared under this name");
  });
}

/** Returns whether the object needs no confirmation: its name, namespace and cluster are as before. */
function isLeftBehind(platform: PlatformRow, { clusterId, object }: Newcomer): boolean {
  return (
    platform.external_id?.startsWith(`${clusterId}.`) === true &&
    platform.object_namespace === object.namespace &&
    platform.object_name === object.name
  );
}

function columnsOf({ namespace, name }: ObjectPlace) {
  return { object_namespace: namespace, object_name: name };
}

type Declared = { binding: NamespaceBindingRow; object: ObjectPlace };

const keyOf = ({ binding: { account_id, cluster_id }, object }: Declared) => ({
  account_id,
  cluster_id,
  namespace: object.namespace,
  name: object.name,
});
const KEY = ["account_id", "cluster_id", "namespace", "name"];

/**
 * Records an object's ceiling, which may only shrink, even if the object is deleted and recreated, and no
 * matter who narrowed it. The record is deleted together with the acceptance of the namespace. Throws what
 * the newcomer's `check` throws, `invalid_scopes`, `ceiling_widened`.
 */
async function noteCeiling(db: Database, newcomer: Newcomer): Promise<void> {
  const ceiling = checkScopes(newcomer.allowedScopes);
  const key = keyOf(newcomer);
  await db.transaction(async (tx) => {
    await newcomer.check(tx);
    checkShrinks((await lastCeiling(tx, newcomer)) ?? ceiling, ceiling);
    await tx("declared_ceilings")
      .insert({ ...key, ceiling })
      .onConflict(KEY)
      .ignore();
    const known = await tx("declared_ceilings").where(key).forUpdate().first("ceiling");
    checkShrinks(known?.ceiling ?? ceiling, ceiling);
    await tx("declared_ceilings").where(key).update({ ceiling });
  });
}

async function keepCeiling(
  db: Database | Transaction,
  declared: Declared,
  ceiling: readonly string[],
): Promise<void> {
  await db("declared_ceilings")
    .insert({ ...keyOf(declared), ceiling: [...ceiling] })
    .onConflict(KEY)
    .merge();
}

/**
 * Returns the ceiling of the object's most recently removed platform, which the owner may have narrowed.
 * Ignores platforms that were removed before the namespace was accepted.
 */
async function lastCeiling(
  tx: Transaction,
  { binding: { account_id, cluster_id, accepted_at }, object: { namespace, name } }: Declared,
): Promise<string[] | undefined> {
  const removed = await tx("platforms")
    .where({ account_id, object_namespace: namespace, object_name: name })
    .whereLike("external_id", `${cluster_id}.%`)
    .andWhere("removed_at", ">", accepted_at)
    .orderBy("removed_at", "desc")
    .first("default_allowed_scopes");
  return removed?.default_allowed_scopes;
}
