import type { Pool, PoolClient } from "pg";
import { canonicalJson } from "../protocol/canonical.ts";

/** Price of one decision in micro-USD (specification §8: 0.002 USD per verification). */
export const VERIFICATION_PRICE_MICRO_USD = 2_000;

/** A decision's value (specification §2). */
export type Decision = "allow" | "deny" | "indeterminate";

/** One genuine proof, judged by the pure rules, waiting to be decided. */
export type DecisionItem = {
  /** Who pays and keeps the record: the account of the connection that verifies. */
  accountId: string;
  connectionId: string;
  challenge: Uint8Array;
  challengeExpiresAt: Date;
  /** The verdict of the pure rules. */
  decision: "allow" | "deny";
  reason: string;
  /** Certificates whose state the rules consult before their verdict; one that is revoked wins over it. */
  certificates: { accountId: string; certId: string }[];
  eventId: string;
  decidedAt: Date;
  agentId: string;
  humanId: string;
  certId: string;
  requiredScope: string;
  /** The verdict in the protocol's words, when it is a refusal. */
  errorReason: string | null;
  /** The operation that the proof is bound to, decided once. */
  invocation: { id: string; operationHash: Buffer } | null;
  /** What the chain grants, sorted; a ceiling that shrank since narrows it further. */
  grantedScope: string[];
  /** The receipt's canonical JSON before its decision and after its granted scopes. */
  receiptHead: string;
  receiptTail: string;
};

/** What became of an item: decided and recorded, or refused with nothing recorded and nothing charged. */
export type DecisionOutcome =
  | { kind: "decided"; decision: Decision; reason: string; receiptHash: Buffer; grantedScope?: string[] }
  | { kind: "challenge_spent" }
  | { kind: "invocation_taken" }
  | { kind: "credits_exhausted" };

type AnswerRow = {
  n: number;
  fresh: boolean;
  spent: boolean;
  decision: Decision | null;
  reason: string | null;
  receipt_hash: Buffer | null;
  granted: string | null;
};

/**
 * Spends the challenges, reads the certificates' states, charges the accounts and appends audit rows and ledger
 * postings for a whole batch, in one statement and one commit. Each item touches rows of one account only, besides
 * its certificates', which belong to the account of the root that signed them.
 *
 * An operation that has its decision is left alone, before its challenge is touched; one that was indeterminate has
 * none yet. Two statements that decide on one operation at the same moment break the primary key of `invocations`:
 * nothing of the later one is done, and it is to be sent again.
 *
 * Order matters twice. Challenges are inserted and balances locked in key order, because two batches that took them
 * in their own order would deadlock. `distinct on` keeps a challenge that stands twice in one batch from being joined
 * to both items: the later one is answered as spent. `for share` makes a revocation wait for the decisions that have
 * read the certificate, and makes those that come later read it revoked: see decision record 0005.
 *
 * Scopes are handed over in canonical JSON and narrowed as `json`, which keeps each element's text as it came.
 */
const statement = `
with item as (
  select distinct on (connection_id, challenge) *
  from unnest($1::int[], $2::uuid[], $3::uuid[], $4::bytea[], $5::timestamptz[], $6::text[], $7::text[], $8::uuid[],
              $9::timestamptz[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[],
              $22::text[], $23::text[], $24::bytea[])
    as item (n, account_id, connection_id, challenge, challenge_expires_at, decision, reason, event_id,
             decided_at, agent_id, human_id, cert_id, required_scope, receipt_head, receipt_tail, granted,
             error_reason, invocation_id, operation_hash)
  order by connection_id, challenge, n
),
fresh as (
  select * from (
    select item.*, row_number() over (partition by connection_id, invocation_id order by n) as turn from item
  ) as item
  where invocation_id is null or turn = 1 and not exists (
    select from invocations i where i.account_id = item.account_id
      and i.connection_id = item.connection_id and i.invocation_id = item.invocation_id)
),
spent as (
  insert into spent_challenges (connection_id, expires_at, challenge)
  select connection_id, challenge_expires_at, challenge from fresh
  order by connection_id, challenge_expires_at, challenge
  on conflict do nothing
  returning connection_id, challenge
),
pinned as (
  select c.account_id, c.cert_id, c.status, c.ceiling_scope from certificates c
  where (c.account_id, c.cert_id) in (select * from unnest($18::uuid[], $19::text[]))
  order by c.account_id, c.cert_id for share
),
state as (
  select link.n, bool_or(c.status = 'revoked') as revoked, bool_or(c.cert_id is null) as unknown,
         bool_or(c.ceiling_scope is not null) as has_ceiling,
         bool_or(c.ceiling_scope is not null and not link.required_scope = any (c.ceiling_scope)) as over_ceiling
  from unnest($17::int[], $18::uuid[], $19::text[], $20::text[]) as link (n, account_id, cert_id, required_scope)
  left join pinned c on c.account_id = link.account_id and c.cert_id = link.cert_id
  group by link.n
),
judged as (
  select item.n, item.account_id, verdict.decision, verdict.reason, verdict.decision <> 'indeterminate' as charged,
         coalesce(state.has_ceiling, false) as has_ceiling
  from item
  join spent using (connection_id, challenge)
  left join state on state.n = item.n
  cross join lateral (
    select * from (values
      (1, coalesce(state.revoked, false), 'deny', 'delegation_revoked'),
      (2, coalesce(state.unknown, false), 'indeterminate', 'revocation_state_unavailable'),
      (3, item.decision = 'allow' and coalesce(state.over_ceiling, false), 'deny', 'ceiling_exceeded'),
      (4, true, item.decision, item.reason)
    ) as rule (place, holds, decision, reason)
    where holds order by place limit 1
  ) as verdict
),
queued as (
  select judged.*, count(*) filter (where charged) over (partition by account_id order by n) as place from judged
),
due as (
  select account_id, count(*) as wanted from judged where charged group by account_id
),
held as (
  select account_id, balance_micro_usd from balances
  where account_id in (select account_id from due)
  order by account_id for update
),
charge as (
  update balances b
  set balance_micro_usd = held.balance_micro_usd - least(due.wanted, held.balance_micro_usd / $21::bigint) * $21::bigint
  from held join due using (account_id)
  where b.account_id = held.account_id
  returning b.account_id, least(due.wanted, held.balance_micro_usd / $21::bigint) as affordable
),
decided as (
  select item.*, queued.decision as final, queued.reason as final_reason, queued.charged,
         narrowed.granted as narrowed, receipt.body, sha256(convert_to(receipt.body, 'UTF8')) as receipt_hash
  from queued
  join item using (n)
  left join charge on charge.account_id = queued.account_id
  cross join lateral (
    select case when queued.has_ceiling and queued.decision = 'allow' then (
      select '[' || coalesce(string_agg(scope.value::text, ',' order by scope.place), '') || ']'
      from json_array_elements(item.granted::json) with ordinality as scope (value, place)
      where not exists (
        select from unnest($17::int[], $18::uuid[], $19::text[]) as link (n, account_id, cert_id)
        join pinned c on c.account_id = link.account_id and c.cert_id = link.cert_id
        where link.n = item.n and c.ceiling_scope is not null and (scope.value #>> '{}') <> all (c.ceiling_scope))
    ) end as granted
  ) as narrowed
  cross join lateral (
    select item.receipt_head || '"decision":"' || queued.decision || '","decision_reason":"' || queued.reason ||
           '","granted_scope":' ||
           case when queued.decision = 'allow' then coalesce(narrowed.granted, item.granted) else '[]' end ||
           item.receipt_tail as body
  ) as receipt
  where not queued.charged or queued.place <= charge.affordable
),
posted as (
  insert into ledger_postings (account_id, posted_at, posting_id, kind, debit_book, credit_book, amount_micro_usd)
  select account_id, decided_at, challenge, 'verification', 'credit', 'revenue', $21::bigint from decided where charged
),
written as (
  insert into audit_events (account_id, occurred_at, event_id, event_type, connection_id, agent_id, human_id, cert_id,
                            decision, decision_reason, required_scope, receipt, receipt_hash)
  select account_id, decided_at, event_id, case when final = 'allow' then 'proof.verified' else 'proof.rejected' end,
         connection_id, agent_id, human_id, cert_id, final, final_reason, required_scope, body, receipt_hash
  from decided
),
kept as (
  insert into invocations (account_id, connection_id, invocation_id, operation_hash, event_id, decided_at, error_reason)
  select account_id, connection_id, invocation_id, operation_hash, event_id, decided_at,
         case when final_reason = reason then error_reason else final_reason end
  from decided where invocation_id is not null and final <> 'indeterminate'
  order by account_id, connection_id, invocation_id
)
select item.n, fresh.n is not null as fresh, spent.challenge is not null as spent, decided.final as decision, decided.final_reason as reason,
       decided.receipt_hash, decided.narrowed as granted
from item
left join fresh on fresh.n = item.n
left join spent on spent.connection_id = item.connection_id and spent.challenge = item.challenge
left join decided on decided.n = item.n`;

/** Decides a batch, in a commit of its own or within the client's transaction. Rejects when nothing can be known to be recorded; the callers then answer that no decision exists. */
export async function decideBatch(
  database: Pool | PoolClient,
  items: readonly DecisionItem[],
): Promise<DecisionOutcome[]> {
  const column = <T>(read: (item: DecisionItem, n: number) => T): T[] => items.map(read);
  const links = items.flatMap((item, n) =>
    item.certificates.map((certificate) => ({ n, item, ...certificate })),
  );
  const { rows } = await database.query<AnswerRow>({
    name: "decide",
    text: statement,
    values: [
      column((_, n) => n),
      column((item) => item.accountId),
      column((item) => item.connectionId),
      column((item) => item.challenge),
      column((item) => item.challengeExpiresAt),
      column((item) => item.decision),
      column((item) => item.reason),
      column((item) => item.eventId),
      column((item) => item.decidedAt),
      column((item) => item.agentId),
      column((item) => item.humanId),
      column((item) => item.certId),
      column((item) => item.requiredScope),
      column((item) => item.receiptHead),
      column((item) => item.receiptTail),
      column((item) => canonicalJson(item.grantedScope)),
      links.map((link) => link.n),
      links.map((link) => link.accountId),
      links.map((link) => link.certId),
      links.map((link) => link.item.requiredScope),
      VERIFICATION_PRICE_MICRO_USD,
      column((item) => item.errorReason),
      column((item) => item.invocation?.id ?? null),
      column((item) => item.invocation?.operationHash ?? null),
    ],
  });
  const answers = new Map(rows.map((row) => [row.n, row]));
  return shareExhaustion(
    items,
    items.map((_, n) => outcomeOf(answers.get(n))),
  );
}

/** Who stands behind another with the same invocation that found no credit would be the next to find none. */
function shareExhaustion(items: readonly DecisionItem[], outcomes: DecisionOutcome[]): DecisionOutcome[] {
  const keyOf = (n: number) => `${items[n]?.connectionId} ${items[n]?.invocation?.id}`;
  const exhausted = new Set(
    outcomes.flatMap(({ kind }, n) => (kind === "credits_exhausted" && items[n]?.invocation ? keyOf(n) : [])),
  );
  return outcomes.map((outcome, n) =>
    outcome.kind === "invocation_taken" && exhausted.has(keyOf(n)) ? { kind: "credits_exhausted" } : outcome,
  );
}

function outcomeOf(row: AnswerRow | undefined): DecisionOutcome {
  if (row?.fresh === false) return { kind: "invocation_taken" };
  if (!row?.spent) return { kind: "challenge_spent" };
  const { decision, reason, receipt_hash: receiptHash } = row;
  if (decision === null || reason === null || receiptHash === null) return { kind: "credits_exhausted" };
  const grantedScope = row.granted === null ? undefined : (JSON.parse(row.granted) as string[]);
  return { kind: "decided", decision, reason, receiptHash, ...(grantedScope ? { grantedScope } : {}) };
}
