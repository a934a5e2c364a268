import { uuidv7 } from "uuidv7";
import type { Transaction } from "../db/database.ts";
import { traceparent } from "../trace_context.ts";
import { type AccountEvent, accountEventKinds } from "./account_kinds.ts";
import { SCHEMA_VERSION, shardOf } from "./outbox.ts";

/**
 * Appends an account's event to the outbox, in the transaction of the change that it reports. It takes the
 * account's next number under the lock of its balance, so call it last: decisions lock certificates before
 * balances. Throws when the fields are not those of the kind, or the account has no balance yet.
 */
export async function appendAccountEvent(tx: Transaction, event: AccountEvent, now: Date): Promise<void> {
  const { type, ...rest } = event;
  const fields = accountEventKinds[type].parse(rest);
  const [balance] = await tx("balances")
    .where({ account_id: fields.account_id })
    .increment("next_event_seq", 1)
    .returning("next_event_seq");
  if (balance === undefined) throw new Error(`The account ${fields.account_id} has no balance`);
  await tx("outbox").insert({
    event_id: uuidv7(),
    aggregatetype: "account",
    aggregateid: fields.account_id,
    aggregate_seq: balance.next_event_seq - 1,
    type,
    schema_version: SCHEMA_VERSION,
    shard: shardOf(fields.account_id),
    payload: JSON.stringify({ event: type, ...fields }),
    headers: JSON.stringify({ traceparent: traceparent() }) as never,
    created_at: now,
  });
}
