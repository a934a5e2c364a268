import type { Database } from "../db/database.ts";
import type { ConnectionRow } from "../db/tables.ts";
import {
  webhookFormerSecretContext,
  webhookNextSecretContext,
  webhookSecretContext,
} from "../events/secrets.ts";
import type { SecretBox } from "../secret_box.ts";

/** Columns of `connections` that hold its webhook secrets. */
export const SECRET_COLUMNS = [
  "connection_id",
  "webhook_secret_sealed",
  "webhook_next_secret_sealed",
  "webhook_former_secret_sealed",
  "webhook_former_until",
] as const satisfies (keyof ConnectionRow)[];

/** A connection's webhook secrets as they are kept. */
export type BoxedSecrets = Pick<ConnectionRow, (typeof SECRET_COLUMNS)[number]>;

/**
 * The secrets that a delivery is signed with at `now`: the current one; the next one, from its creation to
 * its promotion; the one before the current, until its grace is over. Throws when one cannot be opened.
 */
export function openSecrets(secretBox: SecretBox, boxed: BoxedSecrets, now: Date): [string, ...string[]] {
  const { connection_id: id, webhook_former_until: until } = boxed;
  const former = until !== null && now < until ? boxed.webhook_former_secret_sealed : null;
  const next = boxed.webhook_next_secret_sealed;
  return [
    secretBox.unbox(boxed.webhook_secret_sealed, webhookSecretContext(id)),
    ...(next === null ? [] : [secretBox.unbox(next, webhookNextSecretContext(id))]),
    ...(former === null ? [] : [secretBox.unbox(former, webhookFormerSecretContext(id))]),
  ];
}

/** A connection's secrets as they are now; `undefined` when there is no such connection. */
export async function readSecrets(
  database: Database,
  connectionId: string,
): Promise<BoxedSecrets | undefined> {
  return database("connections").where({ connection_id: connectionId }).first(SECRET_COLUMNS);
}
