import { OUTBOX_SHARDS, SCHEMA_VERSION } from "../events/outbox.ts";

/**
 * Part of the deciding statement: an event `credits.low` for each account whose balance came to its mark, or to less than
 * the price, by this very charge. It is in the same commit as the charge, under the lock of the balance, so that it is
 * neither lost nor said twice; a statement that carries a balance past both says the graver one.
 *
 * Reads `charge (account_id, before, after, low_at)`, one row an account, and `decided`; `price` is the parameter with the
 * price. Mostly `crossed` is empty: then no row of `accounts` is looked for.
 */
export const lowCreditEvents = (price: string): string => `
crossed as (
  select account_id, after, low_at, case when after < ${price} then 'exhausted' else 'low' end as level,
         (select max(decided_at) from decided where decided.account_id = charge.account_id) as at
  from charge
  where before >= ${price} and after < ${price} or before > low_at and after <= low_at
),
numbered as (
  update accounts set next_event_seq = next_event_seq + 1
  where account_id = any (array(select account_id from crossed))
  returning account_id, next_event_seq - 1 as seq
),
announced as (
  insert into outbox (event_id, aggregatetype, aggregateid, aggregate_seq, type, schema_version, shard, payload, headers,
                      created_at)
  select gen_random_uuid(), 'account', account_id, seq, 'credits.low', ${SCHEMA_VERSION},
         get_byte(sha256(convert_to(account_id::text, 'UTF8')), 0) % ${OUTBOX_SHARDS},
         json_build_object('event', 'credits.low', 'account_id', account_id, 'level', level, 'balance_micro_usd', after,
                           'low_at_micro_usd', low_at, 'price_micro_usd', ${price},
                           'occurred_at', to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')),
         '{}', at
  from crossed join numbered using (account_id)
)`;
