import { OUTBOX_SHARDS, SCHEMA_VERSION } from "../../events/outbox.ts";

/**
 * Whether a charge brought a balance from above its mark to it, or from the price of a decision to less: a
 * condition over `before`, `after` and `low_at`. `price` is the parameter with the price.
 */
export const crossesMark = (price: string): string =>
  `(before >= ${price} and after < ${price} or before > low_at and after <= low_at)`;

/**
 * Part of the deciding statement: an event `credits.low` for each account whose charge crossed a mark. It is
 * in the commit of the charge, and numbered under the lock of the balance, so that it is neither lost nor
 * said twice; a charge that crosses both marks says the graver one. Mostly there is none, and nothing is read
 * for it.
 *
 * Reads `charge (account_id, after, low_at, event_seq)`, one row an account, where `event_seq` is null unless
 * a mark was crossed, and `decided`. `price` is the parameter with the price.
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
