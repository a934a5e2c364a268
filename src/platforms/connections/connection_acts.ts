import type { Transaction } from "../../db/database.ts";
import type { ConnectionRow } from "../../db/key_tables.ts";
import { newId } from "../../ids.ts";

/** A customer connection, as its parties' lists of activity name it. */
export type ActedOn = Pick<
  ConnectionRow,
  "connection_id" | "account_id" | "product_id" | "customer_account_id"
>;

/** A party of a customer connection. */
export type Party = "publisher" | "customer";

/**
 * Adds what one party of a customer connection did, by the id of the operation, to the other party's list of
 * activity. The entry names nobody, so neither party learns who acts for the other.
 */
export async function tellOtherParty(
  tx: Transaction,
  { connection_id, account_id, product_id, customer_account_id }: ActedOn,
  { by, operation, now }: { by: Party; operation: string; now: Date },
): Promise<void> {
  if (customer_account_id === null) throw new Error(`${connection_id} is not a customer connection`);
  const [organization_id, target] =
    by === "customer"
      ? [account_id, { platform_id: product_id, connection_id }]
      : [customer_account_id, { connection_id }];
  await tx("organization_activity").insert({
    ...{ actor_account_id: null, actor_email: null, actor_role: null },
    organization_id,
    activity_id: newId(),
    occurred_at: now,
    operation,
    target: JSON.stringify(target) as unknown as Record<string, string>,
    status: "done",
    error_code: null,
  });
}
