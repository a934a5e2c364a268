import { OUTBOX_SHARDS, SCHEMA_VERSION } from "../../events/outbox.ts";

/**
 * Returns an SQL condition over `before`, `after` and `low_at`: a charge reduced the balance to or below the
 * low-credit mark, or below the price of one decision. `price` is the SQL parameter with the price.
 */
export const crossesMark = (price: string): string =>
  `(before >= ${price} and after < ${price} or before > low_at and after <= low_at)`;

/**
 * Returns the part of the deciding statement that appends an event `credits.low` for each account whose
 * charge crossed a mark. The event gets its number under the balance lock, so it is neither lost nor sent
 * twice. If a charge crosses both marks, the event reports the lower one.
 *
 * Reads `decided` and `charge (account_id, after, low_at, event_seq)`, with one row per account. `event_seq`
 * is null unless the charge crossed a mark. `price` is the SQL parameter with the price.
 */
export const lowCreditEvents = (price: string): string => `
announced as (
  insert into outbox (event_id, aggregatetype, aggregateid, aggregate_seq, type, schema_version, shard, payload, headers,
                      created_at)
  select gen_random_uuid(), 'account', account_id, event_seq, 'credits.low', ${SCHEMA_VERSION},
         get_byte(sha256(convert_to(account_id::text, 'UTF8')), 0) % ${OUTBOX_SHARDS},
         json_build_object('event', 'credits.low', 'account_id', account_id,
                           'level', case when after < ${price} then 'exhausted' else 'low' end,
                           'balance_micro_usd', after, 'low_at_micro_usd', low_at, 'price_micro_usd', ${price},
                           'occurred_at', to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')),
         coalesce((select jsonb_build_object('traceparent', traceparent) from decided
                   where decided.account_id = crossed.account_id and traceparent is not null
                   order by decided_at desc limit 1), '{}'), at
  from (
    select charge.*, (select max(decided_at) from decided where decided.account_id = charge.account_id) as at
    from charge where event_seq is not null
  ) as crossed
)`;
