import type { Database, Transaction } from "../db/database.ts";
import type { MemberRole } from "../route.ts";

/** Maximum number of setups that are shown. An account has at most 1,000 approvers and 1,000 namespaces. */
const MAX_SHOWN = 3_000;

/** Returns what ends when a person with this role leaves the organization. */
export type SetupsOf = (member: { account_id: string; role: MemberRole }) => string[];

/**
 * Reads what members set up. Each entry is `accepted_principals/<platform>`,
 * `cluster_approver/<cluster>/<user>`, `namespace_binding/<cluster>/<namespace>`,
 * `outside_verifiers/<connection>`, `product_approval/<platform>`, `request_channel/<host>`,
 * `platform_adoption/<platform>` or `agent_adoption/<agent>`. A link belongs to its member and to the owner
 * who made it. If nobody knows who set something up, it belongs to each owner.
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
     union all
     select 'product_approval/' || platform_id, approved_by, null
       from connect_proposals where account_id = :accountId and approved_at is not null
     union all
     select 'request_channel/' || host, set_by, null from request_channels where account_id = :accountId
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

/**
 * If the maker is unknown, any owner may be the maker. So the setup ends when the next owner loses the role.
 */
const UNKNOWN = (maker: string) => `${maker} is null and :wasOwner`;
/** The condition for setups that end when the person leaves. A member keeps them with any role. */
const kept = (maker: string) => `(${maker} = :personId and not :stays or ${UNKNOWN(maker)})`;
/** The condition for setups that end when the person is no longer an owner. */
const ownersOnly = (maker: string) => `(${maker} = :personId or ${UNKNOWN(maker)})`;

const LINKS = `account_id = :accountId and (member_id = :personId or ${ownersOnly("linked_by")})
  and not (:stays and member_id is not distinct from :personId)`;
const BINDINGS = `account_id = :accountId and accepted_at is not null and ${kept("accepted_by")}`;
const ADOPTIONS = `account_id = :accountId and ${ownersOnly("confirmed_by")}`;
const CHANNELS = `account_id = :accountId and ${ownersOnly("set_by")}`;
const VERIFIERS = `account_id = :accountId and outside_verifiers <> '{}' and ${kept("outside_verifiers_by")}`;
/** The condition for approvals of products whose approver may no longer connect products. */
const LAPSED = `approved_at is not null and coalesce(
    (select own_role from accounts where account_id = approved_by and account_id = :accountId),
    (select role from organization_members where organization_id = :accountId and account_id = approved_by), 'none')
  <> all (select unnest(case connecting when 'owners' then array['owner'] else array['owner', 'approver'] end)
    from accounts where account_id = :accountId)`;
/**
 * Approvals of products end when their approver may no longer connect products, and undecided proposals when
 * the member leaves.
 */
const PROPOSALS = `account_id = :accountId and (proposed_by = :personId and approved_at is null and not :stays
  or approved_by = :personId and ${LAPSED})`;
/**
 * If an object declares the platform, the object accepted the principals without a maker. These end only with
 * the acceptance of the object's namespace: its maker could have declared them.
 */
const PRINCIPALS = `connection_id in (select connection_id from connections where account_id = :accountId)
  and (${kept("accepted_by")} and (accepted_by is not null or connection_id in (
    select connection_id from connections join platforms using (platform_id) where external_id is null))
  or accepted_by is null and connection_id in (
    select c.connection_id from connections c join platforms p using (platform_id)
    join namespace_bindings b on b.account_id = :accountId and b.namespace = p.object_namespace
      and b.cluster_id = split_part(p.external_id, '.', 1)
    where c.account_id = :accountId and b.accepted_at is not null and ${kept("b.accepted_by")}))`;

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
 * If the person leaves the organization, ends everything that this person set up. If the person remains a
 * member, ends only what nobody but an owner may keep. What the person's namespaces have registered remains,
 * but not the principals that their objects accepted.
 * The caller must hold the lock of the organization's members.
 */
export async function endSetups(tx: Transaction, leaver: Leaver): Promise<void> {
  await tx.raw(`delete from cluster_approvers where ${LINKS}`, leaver);
  await tx.raw(
    `with ended as (
       select connection_id, human_id from accepted_principals where ${PRINCIPALS}
       order by connection_id, human_id for update)
     delete from accepted_principals a using ended e
     where a.connection_id = e.connection_id and a.human_id = e.human_id`,
    leaver,
  );
  const ended = await tx.raw<{ rows: { cluster_id: string; namespace: string }[] }>(
    `delete from namespace_bindings where ${BINDINGS} returning cluster_id, namespace`,
    leaver,
  );
  // A separate statement also sees the ceilings of a transaction for which the first statement waited.
  for (const { cluster_id, namespace } of ended.rows) {
    await tx("declared_ceilings").where({ account_id: leaver.accountId, cluster_id, namespace }).delete();
  }
  await tx.raw(`delete from adoptions where ${ADOPTIONS}`, leaver);
  await tx.raw(`delete from request_channels where ${CHANNELS}`, leaver);
  await tx.raw(`delete from connect_proposals where ${PROPOSALS}`, leaver);
  if (!leaver.stays) {
    await tx("saved_filters").where({ account_id: leaver.accountId, person_id: leaver.personId }).delete();
  }
  await tx.raw(
    `update connections set outside_verifiers = '{}', outside_verifiers_by = null where ${VERIFIERS}`,
    leaver,
  );
}

/** Returns the people who still have setups in an account, although they lost the role that permits them. */
export async function findLeftovers(db: Database): Promise<{ accountId: string; personId: string }[]> {
  const { rows } = await db.raw<{ rows: { accountId: string; personId: string }[] }>(
    `select distinct s.account_id as "accountId", s.maker as "personId" from (
       select account_id, member_id as maker, false as owners_only from cluster_approvers
       union select account_id, linked_by, member_id is distinct from linked_by from cluster_approvers
       union select account_id, accepted_by, false from namespace_bindings
       union select account_id, confirmed_by, true from adoptions
       union select account_id, set_by, true from request_channels
       union select account_id, approved_by, false from connect_proposals
       union select account_id, proposed_by, false from connect_proposals where approved_at is null
       union select account_id, accepted_by, false from accepted_principals
       union select account_id, person_id, false from saved_filters
       union select account_id, outside_verifiers_by, false from connections) as s
     join accounts a on a.account_id = s.account_id
     left join organization_members m on m.organization_id = s.account_id and m.account_id = s.maker
     cross join lateral (select case when s.maker = a.account_id then a.own_role else m.role end as role) as held
     where s.maker is not null and (held.role is null or s.owners_only and held.role <> 'owner')`,
  );
  return rows;
}

/** Ends approvals of products after an organization has changed who may connect products. */
export async function endLapsedApprovals(tx: Transaction, accountId: string): Promise<void> {
  await tx.raw(`delete from connect_proposals where account_id = :accountId and ${LAPSED}`, { accountId });
}
