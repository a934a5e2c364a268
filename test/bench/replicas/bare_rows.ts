import { itemRows, linkRows, PRICE } from "../../../src/proofs/decide/decision_item.ts";

/**
 * Stores the rows of a batch of decisions without any decision: no certificate, rule, credit or answer. It
 * takes the same parameters, so it shows how little a transaction with these rows can cost.
 */
export const BARE_ROWS = {
  name: "bare rows",
  text: `
with item as (select * from ${itemRows("plain")}),
spent as (
  insert into spent_challenges (connection_id, expires_at, challenge)
  select connection_id, challenge_expires_at, challenge from item
),
posted as (
  insert into ledger_postings (account_id, posted_at, posting_id, kind, debit_book, credit_book, amount_micro_usd)
  select account_id, decided_at, challenge, 'verification', 'receivable', 'revenue', ${PRICE} from item
),
history as (
  insert into audit_events (account_id, occurred_at, event_id, event_type, connection_id, agent_id, human_id, cert_id,
                            decision, decision_reason, required_scope, receipt, receipt_hash)
  select account_id, decided_at, event_id, 'proof.verified', connection_id, agent_id, human_id, cert_id,
         decision, reason, required_scope, receipt_head || receipt_tail, sha256(convert_to(receipt_head, 'UTF8'))
  from item
)
select count(*) from ${linkRows("plain")}`,
};
