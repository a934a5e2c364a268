import type { Database, Transaction } from "../db/database.ts";
import type { MemberRole } from "../route.ts";

/** Maximum number of setups that are shown. An account has at most 1,000 approvers and 1,000 namespaces. */
const MAX_SHOWN = 3_000;

/** Returns what ends when a person with this role leaves the organization. */
export type SetupsOf = (member: { account_id: string; role: MemberRole }) => string[];

/**
 * Reads what members set up. Each entry is `accepted_principals/<platform>`,
 * `cluster_approver/<cluster>/<user>`, `namespace_binding/<cluster>/<namespace>`,
 * `outside_verifiers/<connection>`, `platform_adoption/<platform>` or `agent_adoption/<agent>`. A link
 * belongs to its member and to the owner who made it. If nobody knows who set something up, it belongs to
 * each owner.
 */
export async function readSetups(db: Database, accountId: string): Promise<SetupsOf> {
  const { rows } = await db.raw<{ rows: { setup: string; maker: string | null; member: string | null }[] }>(
    `select * from (
     select 'cluster_approver/' || cluster_id || '/' || username as setup, linked_by as maker, member_id as member
       from cluster_approvers where account_id = :accountId
     union all
     select 'namespace_binding/' || cluster_id || '/' || namespace, accepted_by, null
       from namespace_bindings where account_id = :accountId and accepted_at is not null
     union all
     select kind || '_adoption/' || adopted_id, confirmed_by, null
       from adoptions where account_id = :accountId
     union all
     select 'outside_verifiers/' || connection_id, outside_verifiers_by, null
       from connections where account_id = :accountId and removed_at is null and outside_verifiers <> '{}'
     union
     select 'accepted_principals/' || c.platform_id, a.accepted_by, null
       from connections c join accepted_principals a using (connection_id) join platforms p using (platform_id)
       where c.account_id = :accountId and c.removed_at is null
         and (a.accepted_by is not null or p.external_id is null)) as setups
     order by setup collate "C" limit ${MAX_SHOWN}`,
    { accountId },
  );
  return ({ account_id, role }) =>
    rows
      .filter(
        ({ maker, member }) =>
          maker === account_id || member === account_id || (maker === null && role === "owner"),
      )
      .map(({ setup }) => setup);
}

/**
 * A person who loses a role. `stays` tells whether the person remains a member, and `wasOwner` whether the
 * person was an owner until now.
 */
type Leaver = { accountId: string; personId: string; wasOwner: boolean; stays: boolean };

/** A maker who is not known may have been any owner, so the next owner who loses the role ends the setup. */
const UNKNOWN = (maker: string) => `${maker} is null and :wasOwner`;
/** Members may keep these with any role. */
const kept = (maker: string) => `(${maker} = :personId and not :stays or ${UNKNOWN(maker)})`;
/** Only owners may keep these. */
const ownersOnly = (maker: string) => `(${maker} = :personId or ${UNKNOWN(maker)})`;

const LINKS = `account_id = :accountId and (member_id = :personId or ${ownersOnly("linked_by")})
  and not (:stays and member_id is not distinct from :personId)`;
const BINDINGS = `account_id = :accountId and accepted_at is not null and ${kept("accepted_by")}`;
const ADOPTIONS = `account_id = :accountId and ${ownersOnly("confirmed_by")}`;
const VERIFIERS = `account_id = :accountId and outside_verifiers <> '{}' and ${kept("outside_verifiers_by")}`;
/** Without a maker, the object that declares a platform accepted its principals. */
const PRINCIPALS = `connection_id in (select connection_id from connections where account_id = :accountId)
  and ${kept("accepted_by")} and (accepted_by is not null or connection_id in (
    select connection_id from connections join platforms using (platform_id) where external_id is null))`;

/**
 * Locks the connections with setups of a person. The caller locks the organization's members only after this,
 * in the order of an approval.
 */
export async function lockSetups(tx: Transaction, leaver: Leaver): Promise<void> {
  await tx.raw(
    `select connection_id from connections where account_id = :accountId and (${VERIFIERS} or connection_id in (
       select connection_id from accepted_principals where ${PRINCIPALS}))
     order by connection_id for no key update`,
    leaver,
  );
}

/**
 * Ends what a person set up who leaves an organization, or what only an owner may keep if the person remains
 * a member. What the person's namespaces have registered remains. The caller must hold the lock of the
 * organization's members.
 */
export async function endSetups(tx: Transaction, leaver: Leaver): Promise<void> {
  await tx.raw(`delete from cluster_approvers where ${LINKS}`, leaver);
  await tx.raw(
    `with ended as (delete from namespace_bindings where ${BINDINGS} returning account_id, cluster_id, namespace)
     delete from declared_ceilings c using ended e
     where c.account_id = e.account_id and c.cluster_id = e.cluster_id and c.namespace = e.namespace`,
    leaver,
  );
  await tx.raw(`delete from adoptions where ${ADOPTIONS}`, leaver);
  await tx.raw(
    `with ended as (
       select connection_id, human_id from accepted_principals where ${PRINCIPALS}
       order by connection_id, human_id for update)
     delete from accepted_principals a using ended e
     where a.connection_id = e.connection_id and a.human_id = e.human_id`,
    leaver,
  );
  await tx.raw(
    `update connections set outside_verifiers = '{}', outside_verifiers_by = null where ${VERIFIERS}`,
    leaver,
  );
}
