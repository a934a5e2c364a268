import type { Database, Transaction } from "../db/database.ts";

/** Conditions for what a person set up, by table. If nobody knows who did, it may have been any person. */
const LINKS =
  "account_id = :accountId and (member_id = :personId or linked_by = :personId or linked_by is null)";
const BINDINGS =
  "account_id = :accountId and accepted_at is not null and (accepted_by = :personId or accepted_by is null)";
const ADOPTIONS = "account_id = :accountId and (confirmed_by = :personId or confirmed_by is null)";

/** Maximum number of setups that are shown. An account has at most 1,000 approvers and 1,000 namespaces. */
const MAX_SHOWN = 3_000;

/** Returns what a person set up, which ends when the person leaves the organization. */
export type SetupsOf = (personId: string) => string[];

/**
 * Reads what members set up: links of cluster users, accepted namespaces and unused confirmations. Each is
 * `cluster_approver/<cluster>/<user>`, `namespace_binding/<cluster>/<namespace>`,
 * `platform_adoption/<platform>` or `agent_adoption/<agent>`. A link belongs to its member and to the owner
 * who made it. If nobody knows who set something up, it belongs to everybody.
 */
export async function readSetups(db: Database, accountId: string): Promise<SetupsOf> {
  const { rows } = await db.raw<{ rows: { setup: string; people: (string | null)[] }[] }>(
    `select * from (
     select 'cluster_approver/' || cluster_id || '/' || username as setup,
            array[case when linked_by is not null then member_id end, linked_by] as people
       from cluster_approvers where account_id = :accountId
     union all
     select 'namespace_binding/' || cluster_id || '/' || namespace, array[accepted_by]
       from namespace_bindings where account_id = :accountId and accepted_at is not null
     union all
     select kind || '_adoption/' || adopted_id, array[confirmed_by]
       from adoptions where account_id = :accountId) as setups
     order by setup collate "C" limit ${MAX_SHOWN}`,
    { accountId },
  );
  return (personId) =>
    rows
      .filter(({ people }) => people.includes(personId) || people.every((each) => each === null))
      .map(({ setup }) => setup);
}

/**
 * Ends what a person set up who leaves an organization. What its namespaces have registered remains. The
 * caller must hold the lock of the organization's members.
 */
export async function endSetups(tx: Transaction, accountId: string, personId: string): Promise<void> {
  const person = { accountId, personId };
  await tx.raw(`delete from cluster_approvers where ${LINKS}`, person);
  await tx.raw(
    `with ended as (delete from namespace_bindings where ${BINDINGS} returning account_id, cluster_id, namespace)
     delete from declared_ceilings c using ended e
     where c.account_id = e.account_id and c.cluster_id = e.cluster_id and c.namespace = e.namespace`,
    person,
  );
  await tx.raw(`delete from adoptions where ${ADOPTIONS}`, person);
}

/**
 * Ends what only an owner may keep, when a person loses this role: links of cluster users to other members,
 * and unused confirmations. The caller must hold the lock of the organization's members.
 */
export async function endOwnersSetups(tx: Transaction, accountId: string, personId: string): Promise<void> {
  const person = { accountId, personId };
  await tx.raw(
    `delete from cluster_approvers where ${LINKS} and member_id is distinct from :personId`,
    person,
  );
  await tx.raw(`delete from adoptions where ${ADOPTIONS}`, person);
}
