import type { Database } from "../../src/db/database.ts";

/**
 * The version before migration 0032 decides with a statement of which these are the judging parts, unchanged.
 * The other parts record and charge. An item with these values replaces the batch.
 */
const FORMER_VERDICT = `
with item as (
  select 0 as n, :account_id::uuid as account_id, :connection_id::uuid as connection_id, 'allow' as decision,
         'authorized' as reason, now() as decided_at, :human_id as human_id,
         :root_account_id::uuid as root_account_id, :required_scope as required_scope
),
link as (
  select 0 as n, :root_account_id::uuid as account_id, :cert_id as cert_id, :required_scope as required_scope
),
fresh as (select * from item),
pinned as (
  select c.account_id, c.cert_id, c.status, c.ceiling_scope from certificates c
  where (c.account_id, c.cert_id) in (select account_id, cert_id from link)
  order by c.account_id, c.cert_id for share
),
state as (
  select link.n, bool_or(c.status = 'revoked') as revoked, bool_or(c.cert_id is null) as unknown,
         bool_or(c.ceiling_scope is not null) as has_ceiling,
         bool_or(c.ceiling_scope is not null and not link.required_scope = any (c.ceiling_scope)) as over_ceiling
  from link
  left join pinned c on c.account_id = link.account_id and c.cert_id = link.cert_id
  group by link.n
),
accepted as (
  select a.connection_id, a.human_id, a.granted_scope, a.accepted_until from accepted_principals a
  where (a.connection_id, a.human_id) in (
    select connection_id, human_id from fresh where root_account_id <> account_id)
  order by a.connection_id, a.human_id for share
)
select verdict.decision || ' ' || verdict.reason as outcome
from fresh
left join state on state.n = fresh.n
left join accepted on fresh.root_account_id <> fresh.account_id
  and accepted.connection_id = fresh.connection_id and accepted.human_id = fresh.human_id
  and (accepted.accepted_until is null or accepted.accepted_until > fresh.decided_at)
cross join lateral (
  select case
    when fresh.root_account_id <> fresh.account_id
      and not coalesce(fresh.required_scope = any (accepted.granted_scope), false) then 'principal_not_accepted'
    when state.revoked then 'delegation_revoked'
    when state.unknown then 'revocation_state_unavailable'
    when fresh.decision = 'allow' and state.over_ceiling then 'ceiling_exceeded'
  end as objection
) as ruled
cross join lateral (
  select coalesce(objection, fresh.reason) as reason,
         case when objection is null then fresh.decision
              when objection = 'revocation_state_unavailable' then 'indeterminate' else 'deny' end as decision
) as verdict`;

/** The certificates that AuthZEN and `present` of the former version find for a scope. */
const FORMER_CERTIFICATES = `
select cert_id from certificates where cert_id = ? and status = 'approved' and (ceiling_scope is null or ? = any (ceiling_scope))`;

type Question = { certId: string; scope: string; at: { connectionId: string; accountId: string } };

/** Returns what a process of the former version decides about a genuine proof of a stored certificate. */
export async function formerVerdict(db: Database, { certId, scope, at }: Question): Promise<string> {
  const [root] = await db("certificates as c")
    .join("accounts as a", "a.account_id", "c.account_id")
    .where({ "c.cert_id": certId })
    .select("a.account_id", "a.human_id");
  const { rows } = await db.raw<{ rows: [{ outcome: string }] }>(FORMER_VERDICT, {
    account_id: at.accountId,
    connection_id: at.connectionId,
    human_id: root?.human_id ?? "",
    root_account_id: root?.account_id ?? "",
    required_scope: scope,
    cert_id: certId,
  });
  return rows[0].outcome;
}

/** Returns whether a process of the former version finds the certificate for an answer without a proof. */
export async function isFoundByFormer(
  db: Database,
  { certId, scope }: Omit<Question, "at">,
): Promise<boolean> {
  const { rows } = await db.raw<{ rows: unknown[] }>(FORMER_CERTIFICATES, [certId, scope]);
  return rows.length > 0;
}
