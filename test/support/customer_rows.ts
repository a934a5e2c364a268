import { randomUUID } from "node:crypto";
import type { Database } from "../../src/db/database.ts";

/**
 * Connects a customer with the publisher's platform, and returns the new connection's id. The customer's
 * certificate then counts there only.
 */
export async function connectCustomer(
  db: Database,
  { accountId, certId }: { accountId: string; certId: string },
  publisher: { connectionId: string },
): Promise<string> {
  const id = randomUUID();
  const ids = { id, accountId, certId, own: publisher.connectionId };
  await db.raw(
    `insert into connections (connection_id, account_id, product_id, customer_account_id, customer_name,
       allowed_scopes, verifier_id, explanation_values, created_at)
     select :id, account_id, platform_id, :accountId, 'Customer', '{data:read}', :id, explanation_values, now()
     from connections where connection_id = :own`,
    ids,
  );
  await db.raw(
    `update certificates set connection_id = :id, only_at = :id, ceiling_scope = '{}',
       restricted_ceiling = '{data:read}' where account_id = :accountId and cert_id = :certId`,
    ids,
  );
  return id;
}
