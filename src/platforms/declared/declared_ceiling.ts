import type { NamespaceBindingRow } from "../../db/cluster_tables.ts";
import type { Database, Transaction } from "../../db/database.ts";
import { checkScopes, checkShrinks } from "../../input/ceiling.ts";
import type { ObjectPlace } from "../../input/cluster_fields.ts";

type Declared = { binding: NamespaceBindingRow; object: ObjectPlace };

const keyOf = ({ binding: { account_id, cluster_id }, object }: Declared) => ({
  account_id,
  cluster_id,
  namespace: object.namespace,
  name: object.name,
});
const KEY = ["account_id", "cluster_id", "namespace", "name"];

/**
 * Notes the ceiling of an object's platform, before it is registered: the ceiling may only shrink, and
 * deleting the object and creating it again makes no difference, nor who narrowed it. It is forgotten
 * together with the acceptance of the namespace. Throws `invalid_scopes`, `ceiling_widened`.
 */
export async function noteCeiling(
  db: Database,
  declared: Declared,
  scopes: readonly string[],
): Promise<void> {
  const ceiling = checkScopes(scopes);
  const key = keyOf(declared);
  await db.transaction(async (tx) => {
    checkShrinks((await lastCeiling(tx, declared)) ?? ceiling, ceiling);
    await tx("declared_ceilings")
      .insert({ ...key, ceiling })
      .onConflict(KEY)
      .ignore();
    const known = await tx("declared_ceilings").where(key).forUpdate().first("ceiling");
    checkShrinks(known?.ceiling ?? ceiling, ceiling);
    await tx("declared_ceilings").where(key).update({ ceiling });
  });
}

/** Notes the ceiling that an object's platform has, whatever was noted before. */
export async function keepCeiling(
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
 * The ceiling of the object's platform that was removed last, which its owner may have narrowed in the
 * account. One that was removed before the namespace was accepted is forgotten.
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
