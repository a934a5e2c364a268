import type { Transaction } from "../../db/database.ts";
import type { ConnectionRow } from "../../db/key_tables.ts";
import { newId } from "../../ids.ts";
import type { MemberRole } from "../../route.ts";

/** A customer connection, as its parties' lists of activity name it. */
export type ActedOn = Pick<
  ConnectionRow,
  "connection_id" | "account_id" | "product_id" | "customer_account_id"
>;

/** A party of a customer connection. */
export type Party = "publisher" | "customer";

/** An act, named by the id of its operation. */
type Happened = { operation: string; now: Date };

/**
 * Adds what one party of a customer connection did to the other party's list of activity. The entry names
 * nobody, so neither party learns who acts for the other.
 */
export async function tellOtherParty(
  tx: Transaction,
  { connection_id, account_id, product_id, customer_account_id }: ActedOn,
  { by, operation, now }: Happened & { by: Party },
): Promise<void> {
  if (customer_account_id === null) throw new Error(`${connection_id} is not a customer connection`);
  const other =
    by === "customer"
      ? { organization_id: account_id, target: { platform_id: String(product_id), connection_id } }
      : { organization_id: customer_account_id, target: { connection_id } };
  await tx("organization_activity").insert({
    ...{ actor_account_id: null, actor_email: null, actor_role: null },
    ...rowOf(other, { operation, now }),
  });
}

/** Adds to the customer's list of activity who connected, and tells the publisher. */
export async function noteConnected(
  tx: Transaction,
  connection: ActedOn,
  { personId, role, now }: { personId: string; role: MemberRole; now: Date },
): Promise<void> {
  const { connection_id, customer_account_id } = connection;
  const happened = { operation: "oauth_token", now };
  await tellOtherParty(tx, connection, { by: "customer", ...happened });
  const person = await tx("accounts").where({ account_id: personId }).first("email");
  const own = { organization_id: String(customer_account_id), target: { connection_id } };
  await tx("organization_activity").insert({
    ...{ actor_account_id: personId, actor_email: person?.email ?? "", actor_role: role },
    ...rowOf(own, happened),
  });
}

function rowOf(
  { organization_id, target }: { organization_id: string; target: Record<string, string> },
  { operation, now }: Happened,
) {
  return {
    organization_id,
    activity_id: newId(),
    occurred_at: now,
    operation,
    target: JSON.stringify(target) as unknown as Record<string, string>,
    status: "done" as const,
    error_code: null,
  };
}
