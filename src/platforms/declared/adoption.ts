import { requireOwner } from "../../accounts/member_role.ts";
import type { Clock } from "../../clock.ts";
import type { AdoptionRow } from "../../db/cluster_tables.ts";
import type { Database, Transaction } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import type { ObjectPlace } from "../../input/cluster_fields.ts";

/** A platform or an agent that an object may take over. */
export type Adopted = { accountId: string; kind: AdoptionRow["kind"]; id: string };

/** The object that takes over a platform or an agent. */
export type Adopter = { clusterId: string; object: ObjectPlace };

type Deps = { db: Database; clock: Clock };

const keyOf = ({ accountId, kind, id }: Adopted) => ({ account_id: accountId, kind, adopted_id: id });
const placeOf = ({ clusterId, object }: Adopter) => ({ cluster_id: clusterId, ...object });

/** A confirmation, with the address of the owner who gave it. */
export type ShownConfirmation = AdoptionRow & { confirmer: string | null };

/**
 * Records the confirmation of the owner `by` that an object may take over a platform or an agent, once.
 * Replaces an earlier confirmation. The caller must check that the platform or agent belongs to the account.
 * Throws `forbidden` if `by` is no longer an owner.
 */
export async function confirmAdoption(
  { db, clock }: Deps,
  adopted: Adopted,
  { by, ...adopter }: Adopter & { by: string },
): Promise<AdoptionRow> {
  const row = { ...keyOf(adopted), ...placeOf(adopter), confirmed_at: clock.now(), confirmed_by: by };
  await db.transaction(async (tx) => {
    await requireOwner(tx, adopted.accountId, by);
    await tx("adoptions").insert(row).onConflict(["kind", "adopted_id"]).merge();
  });
  return row;
}

/** Returns the unused confirmation, if there is one. */
export async function findConfirmation(
  db: Database,
  adopted: Adopted,
): Promise<ShownConfirmation | undefined> {
  const { account_id, kind, adopted_id } = keyOf(adopted);
  return db("adoptions as c")
    .leftJoin("accounts as o", "o.account_id", "c.confirmed_by")
    .where({ "c.account_id": account_id, kind, adopted_id })
    .first("c.*", "o.email as confirmer");
}

/** Withdraws a confirmation, if there is an unused one. */
export async function withdrawAdoption(db: Database, adopted: Adopted): Promise<void> {
  await db("adoptions").where(keyOf(adopted)).delete();
}

/** Uses up the owner's confirmation. Throws `adoption_not_confirmed` if there is none. */
export async function useConfirmation(tx: Transaction, adopted: Adopted, adopter: Adopter): Promise<void> {
  const used = await tx("adoptions")
    .where({ ...keyOf(adopted), ...placeOf(adopter) })
    .delete();
  if (used === 0) throw notConfirmed(adopted, adopter);
}

/**
 * Returns the error for an object that may not take over a platform or an agent. It does not reveal whether
 * that platform or agent exists.
 */
export function notConfirmed({ kind, id }: Pick<Adopted, "kind" | "id">, adopter: Adopter): ApiError {
  const { clusterId, object } = adopter;
  return new ApiError(
    "adoption_not_confirmed",
    `The account's owner has not confirmed that ${object.name} in namespace ${object.namespace} of cluster ${clusterId} takes over ${kind} ${id}; the owner confirms it with PUT …/${kind}s/${id}/adoption`,
  );
}

/** Records that the former object, if any, no longer declares anything. */
export async function noteTakenOver(tx: Transaction, former: string | null, now: Date): Promise<void> {
  if (former === null) return;
  await tx("released_objects")
    .insert({ external_id: former, released_at: now })
    .onConflict("external_id")
    .ignore();
}

/**
 * Throws `external_conflict` for an object whose platform or agent was taken over. Such an object must not
 * register a new one.
 */
export async function requireNotReleased(db: Database | Transaction, externalId: string): Promise<void> {
  const released = await db("released_objects").where({ external_id: externalId }).first("external_id");
  if (released === undefined) return;
  throw new ApiError(
    "external_conflict",
    "Another object took over what this object registered; delete this object",
  );
}
