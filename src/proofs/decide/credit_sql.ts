import type { CreditSource } from "../../accounts/ledger/credit_source.ts";
import { PRICE } from "./decision_item.ts";
import { crossesMark, lowCreditEvents } from "./low_credit_events.ts";

/** Selects the items that can be paid, where the items of an account compete for its last credit. */
const IN_ORDER = `
payable as (
  select * from (
    select judged.*, credit.affordable, turn.is_open,
           count(*) filter (where charged and turn.is_open) over (partition by account_id order by judged.n) as place
    from judged
    left join wanted using (account_id)
    left join held using (account_id)
    cross join lateral (select held.balance_micro_usd / ${PRICE} as affordable) as credit
    cross join lateral (
      select case when wanted.items <= credit.affordable then true
             else not is_spent(judged.connection_id, judged.challenge_expires_at, judged.challenge) end as is_open
      offset 0
    ) as turn
  ) as queued
  where not charged or not is_open or place <= affordable
),`;

/** The same where a source pays for all items of an account or for none. Takes a tenth less time in all. */
const ALL_OR_NONE = `
payable as (
  select * from judged where not charged or account_id in (select account_id from held)
),`;
const IS_PAID = "not judged.charged or held.account_id is not null";

/**
 * The parts of the deciding statement that depend on the source of credit. `held` finds the credit of each
 * account. An account without a row there does not use this source. `payable` selects the items that can be
 * paid, and `isPayable` tests one. `charge` charges the credit, and `book` is the one that charges are posted
 * from.
 */
type Credit = { held: string; payable: string; isPayable: string; charge: string; book: string };

/** The SQL for each source of credit. */
export const CREDIT: Record<CreditSource, Credit> = {
  balance: {
    held: `
  select account_id, balance_micro_usd, low_at_micro_usd from balances
  where account_id in (select account_id from wanted) and terms = 'prepaid' and not is_split
  order by account_id for update`,
    charge: `
paid as (
  select paid.*, ${crossesMark(PRICE)} as crosses
  from (
    select account_id, balance_micro_usd as before, balance_micro_usd - due.charges * ${PRICE} as after,
           low_at_micro_usd as low_at
    from held join due using (account_id)
  ) as paid
),
charge as (
  update balances b
  set balance_micro_usd = paid.after, next_event_seq = b.next_event_seq + paid.crosses::int
  from paid
  where b.account_id = paid.account_id
  returning b.account_id, paid.after, paid.low_at, case when paid.crosses then b.next_event_seq - 1 end as event_seq
),
${lowCreditEvents(PRICE)},`,
    payable: IN_ORDER,
    isPayable: "item.n in (select n from payable)",
    book: "credit",
  },
  slices: {
    held: `
  select account_id, slice, balance_micro_usd, null::bigint as low_at_micro_usd from wanted
  cross join lateral (
    select slice, balance_micro_usd from balance_slices s
    where s.account_id = wanted.account_id and s.balance_micro_usd >= wanted.items * ${PRICE}
    order by slice limit 1 for update skip locked
  ) as free`,
    charge: `
charge as (
  update balance_slices s set balance_micro_usd = s.balance_micro_usd - due.charges * ${PRICE}
  from held join due using (account_id)
  where s.account_id = held.account_id and s.slice = held.slice
),`,
    payable: ALL_OR_NONE,
    isPayable: IS_PAID,
    book: "credit",
  },
  invoice: {
    held: `
  select account_id, ${Number.MAX_SAFE_INTEGER}::bigint as balance_micro_usd, null::bigint as low_at_micro_usd
  from balances where account_id in (select account_id from wanted) and terms = 'postpaid'`,
    charge: "",
    payable: ALL_OR_NONE,
    isPayable: IS_PAID,
    book: "receivable",
  },
};
