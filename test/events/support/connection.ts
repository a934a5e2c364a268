import { randomUUID } from "node:crypto";
import type { Database } from "../../../src/db/database.ts";
import { createWebhookSecret, webhookSecretContext } from "../../../src/events/secrets.ts";
import { createSecretBox, type SecretBox } from "../../../src/secret_box.ts";

export const secretBox: SecretBox = createSecretBox(Buffer.alloc(32, 7));

/** A connection with its account and platform, inserted directly into the tables. */
export type TestConnection = { connectionId: string; accountId: string; platformId: string; secret: string };

/** Creates a connection whose events go to `callbackUrl`. */
export async function makeConnection(
  database: Database,
  callbackUrl: string | null,
): Promise<TestConnection> {
  const connectionId = randomUUID();
  const accountId = randomUUID();
  const platformId = randomUUID();
  const secret = createWebhookSecret();
  const now = new Date();
  await database("accounts").insert({
    account_id: accountId,
    email: `${accountId}@example.test`,
    onboarding_step: "profile",
    created_at: now,
  });
  await database("balances").insert({ account_id: accountId, balance_micro_usd: 0 });
  await database("platforms").insert({
    platform_id: platformId,
    account_id: accountId,
    name: "Shop",
    description: "",
    surface_type: "agentic_api",
    default_allowed_scopes: ["data:read"],
    signing_secret_sealed: Buffer.of(1),
    created_at: now,
    expires_at: now,
  });
  await database("connections").insert({
    connection_id: connectionId,
    account_id: accountId,
    platform_id: platformId,
    verifier_id: connectionId,
    callback_url: callbackUrl,
    webhook_secret_sealed: secretBox.box(secret, webhookSecretContext(connectionId)),
    created_at: now,
  });
  await database("api_keys").insert({
    key_prefix: connectionId.slice(0, 8),
    key_hash: Buffer.alloc(32),
    account_id: accountId,
    connection_id: connectionId,
    created_at: now,
  });
  return { connectionId, accountId, platformId, secret };
}

/**
 * Connects a customer to the platform of an own connection. Its events go to the platform's callback, signed
 * with the platform's secret.
 */
export async function makeCustomer(
  database: Database,
  { accountId, platformId, secret }: TestConnection,
): Promise<TestConnection> {
  const connectionId = randomUUID();
  const customerId = randomUUID();
  const created_at = new Date();
  await database("accounts").insert({
    account_id: customerId,
    email: `${customerId}@example.test`,
    onboarding_step: "profile",
    created_at,
  });
  await database("connections").insert({
    connection_id: connectionId,
    account_id: accountId,
    product_id: platformId,
    customer_account_id: customerId,
    customer_name: "Customer & Sons",
    allowed_scopes: ["data:read"],
    verifier_id: connectionId,
    created_at,
  });
  return { connectionId, accountId: customerId, platformId, secret };
}
