import type { Database } from "../../db/database.ts";
import type { ObjectPlace } from "../../input/cluster_fields.ts";
import { checkScopes, checkShrinks } from "../ceiling.ts";

type Deps = { db: Database };
type Declared = { accountId: string; clusterId: string; object: ObjectPlace };

/**
 * Notes the ceiling of an object's platform, before it is registered or changed: the ceiling may only shrink,
 * and deleting the object and creating it again makes no difference. It is forgotten together with the
 * acceptance of the namespace. Throws `invalid_scopes`, `ceiling_widened`.
 */
export async function noteCeiling(
  { db }: Deps,
  { accountId, clusterId, object }: Declared,
  scopes: readonly string[],
): Promise<void> {
  const ceiling = checkScopes(scopes);
  const key = { account_id: accountId, cluster_id: clusterId, ...object };
  await db.transaction(async (tx) => {
    await tx("declared_ceilings")
      .insert({ ...key, ceiling })
      .onConflict(["account_id", "cluster_id", "namespace", "name"])
      .ignore();
    const known = await tx("declared_ceilings").where(key).forUpdate().first("ceiling");
    checkShrinks(known?.ceiling ?? ceiling, ceiling);
    await tx("declared_ceilings").where(key).update({ ceiling });
  });
}
