import type { CreditSource } from "../../accounts/ledger/credit_source.ts";
import { ceilingOf, platformOf } from "../../db/database.ts";
import { CREDIT } from "./credit_sql.ts";
import { type DecisionItem, type Form, itemRows, linkRows, PRICE } from "./decision_item.ts";
import { REASONS } from "./reasons.ts";

/** SQL that selects the items without a decision, for a batch in which no item has an operation. */
const FRESH_PLAIN = "select * from item";

const FRESH = `
  select * from (
    select item.*, row_number() over (partition by connection_id, invocation_id, root_account_id order by n) as turn
    from item
  ) as item
  where invocation_id is null or turn = 1 and not exists (
    select from invocations i where i.account_id = item.account_id
      and i.connection_id = item.connection_id and i.invocation_id = item.invocation_id)`;

/**
 * SQL for the customer connections of a batch. The lock makes a removal that leaves certificates to the
 * worker wait for the decisions that have read the row. Nothing else waits for it.
 */
const CUSTOMERS = `
customers as (
  select c.connection_id, c.removed_at from connections c
  where c.connection_id in (select connection_id from item where customer_account_id is not null)
  order by c.connection_id for key share
),`;

/** A condition that is always true. It completes `customers` before any row of `link` is read. */
const AFTER_CUSTOMERS = "(select count(*) from customers) >= 0";

const ACCEPTED = `
accepted as (
  select a.connection_id, a.human_id, a.granted_scope, a.accepted_until from accepted_principals a
  where (a.connection_id, a.human_id) in (
    select connection_id, human_id from fresh where root_account_id <> account_id and customer_account_id is null)
  order by a.connection_id, a.human_id for share
),`;

const JOIN_ACCEPTED = `left join accepted on fresh.root_account_id <> fresh.account_id
    and fresh.customer_account_id is null
    and accepted.connection_id = fresh.connection_id and accepted.human_id = fresh.human_id
    and (accepted.accepted_until is null or accepted.accepted_until > fresh.decided_at)`;

/** SQL for a batch in which every root belongs to the verifier's account or to no account. */
const JOIN_NONE = "cross join (select null::text[] as granted_scope) as accepted";

/** SQL for the account whose root counts at an item's connection. */
const PRINCIPAL = "coalesce(fresh.customer_account_id, fresh.account_id)";

const EVENT_TYPE = "case when final = 'allow' then 'proof.verified' else 'proof.rejected' end";

const HISTORY_OF_ROOT = `
history_of_root as (
  insert into audit_events (account_id, occurred_at, event_id, event_type, connection_id, agent_id, human_id, cert_id,
                            decision, decision_reason, required_scope, explanation, receipt_hash, verifier_account_id,
                            verifier_platform_name, verifier_organization_name)
  select root_account_id, decided_at, event_id, ${EVENT_TYPE}, connection_id, agent_id, human_id, cert_id,
         final, final_reason, required_scope, explained::jsonb,
         case when customer_account_id = root_account_id then receipt_hash end, account_id,
         (select p.name from connections c join platforms p on p.platform_id = ${platformOf("c")}
          where c.connection_id = decided.connection_id),
         (select a.organization_name from accounts a where a.account_id = decided.account_id)
  from decided where root_account_id <> account_id
),`;

const REMEMBERED = `
remembered as (
  insert into invocations (account_id, connection_id, invocation_id, operation_hash, event_id, decided_at, error_reason)
  select account_id, connection_id, invocation_id, operation_hash, event_id, decided_at,
         case when final_reason = reason then error_reason else final_reason end
  from decided where invocation_id is not null and final <> 'indeterminate' and not elsewhere
    and final_reason not in ('untrusted_root', 'principal_not_accepted')
  order by account_id, connection_id, invocation_id
),`;

/** The explanations for reasons that the statement finds. Each has only a rule. */
const RULES_OF_OBJECTIONS = (
  [
    "principal_not_accepted",
    "delegation_revoked",
    "revocation_state_unavailable",
    "ceiling_exceeded",
    "not_delegated",
  ] as const
)
  .map((reason) => `when '${reason}' then '${JSON.stringify({ rule: REASONS[reason].rule })}'`)
  .join(" ");

/**
 * SQL that selects the state of an item's certificates. A certificate with `only_at` counts at that customer
 * connection only, and at a customer connection no other certificate counts: it is from `elsewhere`.
 */
const ELSEWHERE: Record<Form, { join: string; condition: string }> = {
  plain: { join: "", condition: "c.only_at is not null" },
  whole: {
    join: "join item on item.n = link.n",
    condition:
      "c.only_at is distinct from case when item.customer_account_id is not null then item.connection_id end",
  },
};

/**
 * Returns the statement that decides a whole batch in one commit. Each item accesses rows of one account, and
 * two kinds of rows of its root's account: certificates, and history rows about decisions of other accounts.
 * Such a history row records the verifier's current names. The statement reads these names for such rows
 * only.
 *
 * The statement skips an operation that already has a decision, and does not spend its challenge. An
 * indeterminate decision does not count, nor does a decision about a root that was unknown or not accepted,
 * or about a certificate from elsewhere. Otherwise an attacker could use up the ids of a verifier's
 * operations. Two recorded decisions on one operation violate the primary key of `invocations`. The statement
 * that fails has no effect at all, and its items must be sent again.
 *
 * The statement does not decide an item without credit and does not spend its challenge, so the proof can be
 * used after a top-up. When credit is short, items with spent challenges do not compete for it.
 *
 * Order matters. The statement locks customer connections first, then certificates, balances and challenges,
 * each in key order, because two batches with different orders would deadlock. A removal also locks
 * connections before certificates. It never waits for a slice. `group by` and
 * `order by` complete each step before the next begins. If one batch contains a challenge twice,
 * `distinct on` joins it to the first item only, and the later item is answered as spent. `for share` makes a
 * revocation, or the withdrawal of an acceptance, wait for the decisions that have read the row. Later
 * decisions read the new state: see decision record 0005.
 *
 * The statement receives scopes as canonical JSON and filters them as `json`, which keeps each element
 * unchanged. `offset 0` makes Postgres plan and run the subquery before it only once, not once per use.
 */
const statementFor = (form: Form, source: CreditSource): string => `
with item as (
  select distinct on (connection_id, challenge) * from ${itemRows(form)}
  order by connection_id, challenge, n
),
${form === "plain" ? "" : CUSTOMERS}
link as (
  select * from ${linkRows(form)}${form === "plain" ? "" : ` where ${AFTER_CUSTOMERS}`}
),
fresh as (${form === "plain" ? FRESH_PLAIN : FRESH}),
pinned as (
  select c.account_id, c.cert_id, c.status, ${ceilingOf("c")} as ceiling_scope, c.only_action, c.only_at
  from certificates c
  where (c.account_id, c.cert_id) in (select account_id, cert_id from link)
  order by c.account_id, c.cert_id for share
),
state as (
  select link.n, bool_or(c.status = 'revoked') as revoked, bool_or(c.cert_id is null) as unknown,
         bool_or(c.ceiling_scope is not null) as has_ceiling,
         bool_or(c.ceiling_scope is not null and not link.required_scope = any (c.ceiling_scope)) as over_ceiling,
         bool_or(c.only_action is not null and c.only_action is distinct from link.action) as other_action,
         bool_or(${ELSEWHERE[form].condition}) as elsewhere
  from link ${ELSEWHERE[form].join}
  left join pinned c on c.account_id = link.account_id and c.cert_id = link.cert_id
  group by link.n
),
${form === "plain" ? "" : ACCEPTED}
judged as (
  select fresh.n, fresh.account_id, fresh.connection_id, fresh.challenge, fresh.challenge_expires_at,
         verdict.decision, verdict.reason, verdict.decision <> 'indeterminate' as charged,
         coalesce(state.has_ceiling, false) or accepted.granted_scope is not null as is_narrowed,
         accepted.granted_scope as accepted_scope, coalesce(state.elsewhere, false) as elsewhere
  from fresh
  left join state on state.n = fresh.n
  ${form === "plain" ? JOIN_NONE : `${JOIN_ACCEPTED} left join customers on customers.connection_id = fresh.connection_id`}
  cross join lateral (
    select case
      when fresh.root_account_id <> ${form === "plain" ? "fresh.account_id" : PRINCIPAL}
        and not coalesce(fresh.required_scope = any (accepted.granted_scope), false) then 'principal_not_accepted'
      when state.revoked${form === "plain" ? "" : " or customers.removed_at is not null"} then 'delegation_revoked'
      when state.unknown then 'revocation_state_unavailable'
      when fresh.decision = 'allow' and state.elsewhere then 'not_delegated'
      when fresh.decision = 'allow' and state.over_ceiling then 'ceiling_exceeded'
      when fresh.decision = 'allow' and state.other_action then 'not_delegated'
    end as objection
  ) as ruled
  cross join lateral (
    select coalesce(objection, fresh.reason) as reason,
           case when objection is null then fresh.decision
                when objection = 'revocation_state_unavailable' then 'indeterminate' else 'deny' end as decision
  ) as verdict
),
wanted as (
  select account_id, count(*) as items from judged where charged group by account_id
),
held as (${CREDIT[source].held}
),
${CREDIT[source].payable}
spent as (
  insert into spent_challenges (connection_id, expires_at, challenge)
  select connection_id, challenge_expires_at, challenge from payable
  order by connection_id, challenge_expires_at, challenge
  on conflict do nothing
  returning connection_id, challenge
),
decidable as (
  select payable.* from payable join spent using (connection_id, challenge)
),
due as (
  select account_id, count(*) as charges from decidable where charged group by account_id
),
decided as (
  select item.*, decidable.decision as final, decidable.reason as final_reason, decidable.charged,
         decidable.elsewhere, explained, receipt.body, sha256(convert_to(receipt.body, 'UTF8')) as receipt_hash
  from decidable
  join item using (n)
  cross join lateral (
    select case when decidable.is_narrowed and decidable.decision = 'allow' then (
      select '[' || coalesce(string_agg(scope.value::text, ',' order by scope.place), '') || ']'
      from json_array_elements(item.granted::json) with ordinality as scope (value, place)
      where (decidable.accepted_scope is null or (scope.value #>> '{}') = any (decidable.accepted_scope))
        and not exists (
          select from link
          join pinned c on c.account_id = link.account_id and c.cert_id = link.cert_id
          where link.n = item.n and c.ceiling_scope is not null and (scope.value #>> '{}') <> all (c.ceiling_scope))
    ) end as granted
    offset 0
  ) as narrowed
  cross join lateral (
    select case decidable.reason when item.reason then item.explanation ${RULES_OF_OBJECTIONS} end as explained
  ) as explanation
  cross join lateral (
    select item.receipt_head || '"decision":"' || decidable.decision || '","decision_reason":"' || decidable.reason ||
           '",' || coalesce('"explanation":' || explained || ',', '') || '"granted_scope":' ||
           case when decidable.decision = 'allow' then coalesce(narrowed.granted, item.granted) else '[]' end ||
           item.receipt_tail as body
  ) as receipt
),
${form === "plain" ? "" : REMEMBERED}
${CREDIT[source].charge}
posted as (
  insert into ledger_postings (account_id, posted_at, posting_id, kind, debit_book, credit_book, amount_micro_usd)
  select account_id, decided_at, challenge, 'verification', '${CREDIT[source].book}', 'revenue', ${PRICE} from decided where charged
),
history as (
  insert into audit_events (account_id, occurred_at, event_id, event_type, connection_id, agent_id, human_id, cert_id,
                            decision, decision_reason, required_scope, explanation, receipt, receipt_hash)
  select account_id, decided_at, event_id, ${EVENT_TYPE}, connection_id, agent_id, human_id, cert_id,
         final, final_reason, required_scope, explained::jsonb, body, receipt_hash
  from decided
),
${form === "plain" ? "" : HISTORY_OF_ROOT}
queued as (
  insert into history_queue (account_id, occurred_at, event_id, traceparent)
  select keeper.account_id, decided_at, event_id, traceparent
  from decided
  cross join lateral (
    select decided.account_id union select root_account_id where root_account_id is not null
  ) as keeper (account_id)
  where (select way from event_way) = 'kafka'
)
select item.n, judged.n is not null as fresh, ${CREDIT[source].isPayable} as payable,
       decided.final as decision, decided.final_reason as reason, decided.body as receipt, decided.receipt_hash,
       held.account_id is not null as funded, held.balance_micro_usd as before, held.low_at_micro_usd as low_at
from item
left join judged on judged.n = item.n
left join held on held.account_id = item.account_id
left join decided on decided.n = item.n`;

const statementsFor = (form: Form) => ({
  balance: statementFor(form, "balance"),
  slices: statementFor(form, "slices"),
  invoice: statementFor(form, "invoice"),
});
const STATEMENTS = { plain: statementsFor("plain"), whole: statementsFor("whole") };

/**
 * Returns the statement that decides these items and charges this source of credit, and the name under which
 * the statement is prepared.
 */
export function decisionStatement(
  items: readonly DecisionItem[],
  source: CreditSource,
): { name: string; text: string; form: Form } {
  const form = items.every(isPlain) ? "plain" : "whole";
  return { name: `decide ${form} ${source}`, text: STATEMENTS[form][source], form };
}

function isPlain({ invocation, rootAccountId, accountId, customerAccountId }: DecisionItem): boolean {
  if (invocation !== null || customerAccountId !== null) return false;
  return rootAccountId === null || rootAccountId === accountId;
}
