import { requireOwner } from "../accounts/member_role.ts";
import { addSeconds, type Clock } from "../clock.ts";
import type { NamespaceBindingRow } from "../db/cluster_tables.ts";
import type { Database, Transaction } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { checkScopes } from "../input/ceiling.ts";

/**
 * A namespace of a cluster. `uid` is its uid in Kubernetes, if the operator reports it. A namespace that is
 * created again under the same name has a different uid.
 */
export type NamespacePlace = { clusterId: string; namespace: string; uid?: string | undefined };

/**
 * `ceiling`: the scopes that its platforms may allow at most. `fourEyes`: an approval needs a second person.
 */
export type NamespaceLimits = { ceiling: readonly string[] | null; fourEyes: boolean };

type Deps = { db: Database; clock: Clock };

/** Maximum number of namespaces that one account accepts. */
export const MAX_ACCEPTED_NAMESPACES = 1_000;
/** Maximum number of open requests per cluster that the owner sees. Only the newest are kept. */
const MAX_ASKING = 10;
const ASKING_SECONDS = 14 * 24 * 3600;
/** Minimum seconds between two records of a request, which an operator repeats every few seconds. */
const NOTED_SECONDS = 3600;

/**
 * Returns a namespace's binding if it is accepted. An acceptance of a namespace with another uid does not
 * count. With `lock`, it cannot change before the transaction ends.
 */
export async function findAcceptedBinding(
  db: Database | Transaction,
  accountId: string,
  { clusterId, namespace, uid }: NamespacePlace,
  { lock = false }: { lock?: boolean } = {},
): Promise<NamespaceBindingRow | undefined> {
  const found = db("namespace_bindings")
    .where({ account_id: accountId, cluster_id: clusterId, namespace })
    .whereNotNull("accepted_at")
    .andWhereRaw("coalesce(namespace_uid = ?, true)", [uid ?? null])
    .first();
  return lock ? found.forShare() : found;
}

/**
 * Limits an acceptance that has no uid to the namespace with this uid. Owners can accept a namespace before
 * it exists, and former versions stored no uid. The first uid that the operator reports then counts.
 */
export async function fixNamespaceUid(
  db: Database,
  accountId: string,
  { clusterId, namespace, uid }: NamespacePlace,
): Promise<void> {
  if (uid === undefined) return;
  await db("namespace_bindings")
    .where({ account_id: accountId, cluster_id: clusterId, namespace, namespace_uid: null })
    .update({ namespace_uid: uid });
}

/**
 * Records that a namespace asks to act for an account, so that its owner sees it. The acceptance of a former
 * namespace of this name becomes a request, which keeps its limits as a proposal. The recorded ceilings of
 * that namespace's objects are deleted. Requests of one cluster never displace those of a different cluster.
 */
export async function askForBinding(
  { db, clock }: Deps,
  accountId: string,
  { clusterId, namespace, uid }: NamespacePlace,
): Promise<void> {
  const now = clock.now();
  const asking = () =>
    db("namespace_bindings").where({ account_id: accountId, cluster_id: clusterId }).whereNull("accepted_at");
  const place = { account_id: accountId, cluster_id: clusterId, namespace };
  await db.transaction(async (tx) => {
    const noted = await tx("namespace_bindings as known")
      .insert({
        ...place,
        ceiling: null,
        four_eyes: false,
        asked_at: now,
        accepted_at: null,
        accepted_by: null,
        namespace_uid: uid ?? null,
      })
      .onConflict(["account_id", "cluster_id", "namespace"])
      .merge({
        asked_at: now,
        accepted_at: null,
        accepted_by: null,
        namespace_uid: tx.raw("coalesce(excluded.namespace_uid, known.namespace_uid)"),
      })
      .whereRaw(
        `case when known.accepted_at is null
           then known.asked_at < ? or known.namespace_uid is distinct from coalesce(?, known.namespace_uid)
           else known.namespace_uid <> ? end`,
        [addSeconds(now, -NOTED_SECONDS), uid ?? null, uid ?? null],
      )
      .returning("namespace");
    // A separate statement also sees the ceilings of a transaction for which the first statement waited.
    if (noted.length > 0) await tx("declared_ceilings").where(place).delete();
  });
  const beyond = await asking().orderBy("asked_at", "desc").offset(MAX_ASKING).pluck("namespace");
  if (beyond.length > 0) await asking().whereIn("namespace", beyond).delete();
}

/** Deletes requests that the list no longer shows, and the recorded ceilings of their namespaces' objects. */
export async function sweepBindingRequests({ db, clock }: Deps): Promise<void> {
  const place = ["account_id", "cluster_id", "namespace"];
  const swept = db("namespace_bindings")
    .whereNull("accepted_at")
    .where("asked_at", "<", addSeconds(clock.now(), -ASKING_SECONDS))
    .delete()
    .returning(place);
  await db("declared_ceilings").with("swept", swept).whereIn(place, db("swept").select(place)).delete();
}

/** A binding, with the address of the owner who accepted it or changed its limits last. */
export type ShownBinding = NamespaceBindingRow & { acceptor: string | null };

/** Returns open requests, then accepted bindings, each ordered by cluster and namespace. */
export async function listBindings({ db, clock }: Deps, accountId: string): Promise<ShownBinding[]> {
  return db("namespace_bindings as b")
    .leftJoin("accounts as o", "o.account_id", "b.accepted_by")
    .where({ "b.account_id": accountId })
    .andWhere((row) =>
      row.whereNotNull("accepted_at").orWhere("asked_at", ">=", addSeconds(clock.now(), -ASKING_SECONDS)),
    )
    .orderByRaw("accepted_at is not null, cluster_id, namespace")
    .select("b.*", "o.email as acceptor");
}

/**
 * Accepts a namespace, even without a request, or changes its limits. `by` is the owner who does so. Throws
 * `invalid_scopes`, `namespace_limit`, and `forbidden` if `by` is no longer an owner. With `seenUid`, throws
 * `external_conflict` if the namespace of this name has another uid. Null means that no uid is known.
 */
export async function acceptBinding(
  { db, clock }: Deps,
  accountId: string,
  { clusterId, namespace }: NamespacePlace,
  { ceiling, fourEyes, by, seenUid }: NamespaceLimits & { by: string; seenUid?: string | null | undefined },
): Promise<NamespaceBindingRow> {
  const scopes = ceiling === null ? null : checkScopes(ceiling);
  const now = clock.now();
  return db.transaction(async (tx) => {
    await requireOwner(tx, accountId, by);
    const [row] = await tx("namespace_bindings as known")
      .insert({
        account_id: accountId,
        cluster_id: clusterId,
        namespace,
        ceiling: scopes,
        four_eyes: fourEyes,
        asked_at: now,
        accepted_at: now,
        accepted_by: by,
      })
      .onConflict(["account_id", "cluster_id", "namespace"])
      .merge({
        ceiling: scopes,
        four_eyes: fourEyes,
        accepted_by: by,
        accepted_at: tx.raw("coalesce(known.accepted_at, excluded.accepted_at)"),
      })
      .returning("*");
    if (seenUid !== undefined && row?.namespace_uid !== seenUid) {
      throw new ApiError(
        "external_conflict",
        "The namespace of this name is not the one that you saw: look at its request again",
      );
    }
    const [counted] = await tx("namespace_bindings")
      .where({ account_id: accountId })
      .whereNotNull("accepted_at")
      .count();
    if (Number(counted?.count) > MAX_ACCEPTED_NAMESPACES) throw new ApiError("namespace_limit");
    return row as NamespaceBindingRow;
  });
}

/**
 * Withdraws the acceptance of a namespace and deletes the recorded ceilings of its objects. Registered
 * objects remain, but the namespace can no longer register or request anything. Throws `not_found`.
 */
export async function endBinding(
  { db }: Pick<Deps, "db">,
  accountId: string,
  { clusterId, namespace }: NamespacePlace,
): Promise<void> {
  const place = { account_id: accountId, cluster_id: clusterId, namespace };
  await db.transaction(async (tx) => {
    if ((await tx("namespace_bindings").where(place).delete()) === 0) throw new ApiError("not_found");
    await tx("declared_ceilings").where(place).delete();
  });
}
