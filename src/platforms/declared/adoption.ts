import type { Clock } from "../../clock.ts";
import type { AdoptionRow } from "../../db/cluster_tables.ts";
import type { Database, Transaction } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import type { ObjectPlace } from "../../input/cluster_fields.ts";

/** A platform or an agent of an account. */
export type Adopted = { accountId: string; kind: AdoptionRow["kind"]; id: string };

/** The object that takes it over: where it is, in which cluster. */
export type Adopter = { clusterId: string; object: ObjectPlace };

type Deps = { db: Database; clock: Clock };

const keyOf = ({ accountId, kind, id }: Adopted) => ({ account_id: accountId, kind, adopted_id: id });
const placeOf = ({ clusterId, object }: Adopter) => ({ cluster_id: clusterId, ...object });

/**
 * Notes that the owner lets an object take over a platform or an agent, once. A later confirmation replaces
 * an earlier one. Whether the account has such a platform or agent is the caller's to check.
 */
export async function confirmAdoption(
  { db, clock }: Deps,
  adopted: Adopted,
  adopter: Adopter,
): Promise<AdoptionRow> {
  const row = { ...keyOf(adopted), ...placeOf(adopter), confirmed_at: clock.now() };
  await db("adoptions").insert(row).onConflict(["kind", "adopted_id"]).merge();
  return row;
}

/** The confirmation that was not used yet. */
export async function findConfirmation(db: Database, adopted: Adopted): Promise<AdoptionRow | undefined> {
  return db("adoptions").where(keyOf(adopted)).first();
}

/** Takes a confirmation back, if there is one that was not used. */
export async function withdrawAdoption(db: Database, adopted: Adopted): Promise<void> {
  await db("adoptions").where(keyOf(adopted)).delete();
}

/** Uses the owner's confirmation. Throws `adoption_not_confirmed`. */
export async function useConfirmation(tx: Transaction, adopted: Adopted, adopter: Adopter): Promise<void> {
  const used = await tx("adoptions")
    .where({ ...keyOf(adopted), ...placeOf(adopter) })
    .delete();
  if (used === 0) throw notConfirmed(adopted, adopter);
}

/** The error for what the object may not take over; alike whether or not it exists. */
export function notConfirmed({ kind, id }: Pick<Adopted, "kind" | "id">, adopter: Adopter): ApiError {
  const { clusterId, object } = adopter;
  return new ApiError(
    "adoption_not_confirmed",
    `The account's owner has not confirmed that ${object.name} in namespace ${object.namespace} of cluster ${clusterId} takes over ${kind} ${id}: PUT …/${kind}s/${id}/adoption`,
  );
}

/** Notes that the object which had it, if one had, has nothing any more. */
export async function noteTakenOver(tx: Transaction, former: string | null, now: Date): Promise<void> {
  if (former === null) return;
  await tx("released_objects")
    .insert({ external_id: former, released_at: now })
    .onConflict("external_id")
    .ignore();
}

/**
 * Throws `external_conflict` for an object that something was taken over from: it does not register another
 * one in its place.
 */
export async function requireNotReleased(db: Database | Transaction, externalId: string): Promise<void> {
  const released = await db("released_objects").where({ external_id: externalId }).first("external_id");
  if (released === undefined) return;
  throw new ApiError("external_conflict", "Another object took over what this one registered; delete it");
}
