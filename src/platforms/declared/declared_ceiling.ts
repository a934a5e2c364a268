import type { Database, Transaction } from "../../db/database.ts";
import type { ObjectPlace } from "../../input/cluster_fields.ts";
import { checkScopes, checkShrinks } from "../ceiling.ts";

type Deps = { db: Database };
type Declared = { accountId: string; clusterId: string; object: ObjectPlace };

const keyOf = ({ accountId, clusterId, object }: Declared) => ({
  account_id: accountId,
  cluster_id: clusterId,
  namespace: object.namespace,
  name: object.name,
});
const KEY = ["account_id", "cluster_id", "namespace", "name"];

/**
 * Notes the ceiling of an object's platform, before it is registered or changed: the ceiling may only shrink,
 * and deleting the object and creating it again makes no difference. It is forgotten together with the
 * acceptance of the namespace. Throws `invalid_scopes`, `ceiling_widened`.
 */
export async function noteCeiling(
  { db }: Deps,
  declared: Declared,
  scopes: readonly string[],
): Promise<void> {
  const ceiling = checkScopes(scopes);
  const key = keyOf(declared);
  await db.transaction(async (tx) => {
    await tx("declared_ceilings")
      .insert({ ...key, ceiling })
      .onConflict(KEY)
      .ignore();
    const known = await tx("declared_ceilings").where(key).forUpdate().first("ceiling");
    checkShrinks(known?.ceiling ?? ceiling, ceiling);
    await tx("declared_ceilings").where(key).update({ ceiling });
  });
}

/** Notes the ceiling of a platform that the owner gave an object, whatever it had before. */
export async function keepCeiling(
  tx: Transaction,
  declared: Declared,
  ceiling: readonly string[],
): Promise<void> {
  await tx("declared_ceilings")
    .insert({ ...keyOf(declared), ceiling: [...ceiling] })
    .onConflict(KEY)
    .merge();
}
