import type { Transaction } from "../../db/database.ts";
import type { ConnectionRow } from "../../db/key_tables.ts";
import { appendEvent } from "../../events/outbox.ts";
import type { SecretBox } from "../../secret_box.ts";
import type { NewApiKey } from "../api_keys/api_key.ts";

/** The columns of a new connection. Its id is also its first verifier name. */
type NewConnection = Pick<ConnectionRow, "connection_id" | "account_id" | "created_at"> &
  Partial<ConnectionRow>;

/** Fields of `connection.created`, besides the connection's id and its API key. */
type Created = {
  platformId: string;
  orgId: string;
  orgName: string;
  allowedScopes: readonly string[];
  callbackUrl: string | null;
  webhookSecret: string;
};

/** Inserts a connection with its first API key, and emits `connection.created`. */
export async function insertConnection(
  tx: Transaction,
  secretBox: SecretBox,
  connection: NewConnection,
  { key, ...created }: Created & { key: NewApiKey },
): Promise<void> {
  const { connection_id, account_id, created_at } = connection;
  await tx("connections").insert({ verifier_id: connection_id, ...connection });
  await tx("api_keys").insert({
    key_prefix: key.prefix,
    key_hash: key.hash,
    account_id,
    connection_id,
    created_at,
  });
  const fields = {
    connection_id,
    platform_id: created.platformId,
    org_id: created.orgId,
    org_name: created.orgName,
    allowed_scopes: [...created.allowedScopes],
    callback_url: created.callbackUrl,
  };
  const secrets = { api_key: key.apiKey, webhook_signing_secret: created.webhookSecret };
  const event = { type: "connection.created", connectionId: connection_id, fields, secrets } as const;
  await appendEvent(tx, secretBox, event, created_at);
}
