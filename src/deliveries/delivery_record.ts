import type { Database } from "../db/database.ts";
import type { WebhookAttemptRow, WebhookDeliveryRow } from "../db/tables.ts";
import { ApiError } from "../errors.ts";
import { isUuid } from "../ids.ts";
import { HIDDEN } from "../input/plain_text.ts";

/** Control, format, private and unassigned code points; line breaks and tabs are left. */
const STRANGE = /[^\P{C}\n\t]/gu;
const EVERY_HIDDEN = new RegExp(HIDDEN.source, "gu");

/**
 * What a receiver answered, as text for people: read as UTF-8, with every byte and character that is not
 * visible replaced by U+FFFD, so that a receiver of somebody's choosing commands no terminal and hides
 * nothing.
 */
export function showExcerpt(bytes: Uint8Array): string {
  return Buffer.from(bytes)
    .toString("utf8")
    .replaceAll("\r\n", "\n")
    .replaceAll(STRANGE, "\ufffd")
    .replaceAll(EVERY_HIDDEN, "\ufffd");
}

/** A delivery and how its last attempt ended; without its body. */
export type DeliveryRecord = Pick<
  WebhookDeliveryRow,
  | "delivery_id"
  | "event_id"
  | "event_type"
  | "state"
  | "attempts"
  | "created_at"
  | "next_attempt_at"
  | "settled_at"
> & { last_outcome: string | null; last_status: number | null };

const LAST = `left join lateral (
  select a.outcome, a.status from webhook_attempts a where a.delivery_id = d.delivery_id order by a.attempt desc limit 1
) last on true`;

/** All deliveries of an endpoint; narrow it by `d.` (webhook_deliveries). */
export function selectDeliveries(db: Database, endpointId: string) {
  return db("webhook_deliveries as d")
    .joinRaw(LAST)
    .where({ "d.endpoint_id": endpointId })
    .select<DeliveryRecord[]>(
      "d.delivery_id",
      "d.event_id",
      "d.event_type",
      "d.state",
      "d.attempts",
      "d.created_at",
      "d.next_attempt_at",
      "d.settled_at",
      "last.outcome as last_outcome",
      "last.status as last_status",
    );
}

/** The endpoint's delivery with this id. Throws `not_found` when it has none. */
export async function findDelivery(
  db: Database,
  endpointId: string,
  deliveryId: string,
): Promise<DeliveryRecord> {
  if (!isUuid(deliveryId)) throw new ApiError("not_found");
  const [record] = await selectDeliveries(db, endpointId).where({ "d.delivery_id": deliveryId });
  if (record === undefined) throw new ApiError("not_found");
  return record;
}

/** What a delivery sends, and whether it is kept boxed because it carries secrets. */
export type DeliveryBody = { body: string | null; is_boxed: boolean };

/** The body of a delivery; a boxed one is not opened. */
export async function readBody(db: Database, deliveryId: string): Promise<DeliveryBody> {
  const row = await db("webhook_deliveries")
    .where({ delivery_id: deliveryId })
    .first<DeliveryBody | undefined>("body", db.raw("body_sealed is not null as is_boxed"));
  return row ?? { body: null, is_boxed: false };
}

/** The latest attempts of a delivery, the last one first. */
export async function latestAttempts(
  db: Database,
  deliveryId: string,
  limit: number,
): Promise<WebhookAttemptRow[]> {
  return db("webhook_attempts").where({ delivery_id: deliveryId }).orderBy("attempt", "desc").limit(limit);
}
