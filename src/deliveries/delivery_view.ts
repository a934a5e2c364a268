import { z } from "zod";
import type { Database } from "../db/database.ts";
import type { WebhookAttemptRow, WebhookDeliveryRow } from "../db/tables.ts";
import { ApiError } from "../errors.ts";
import { eventKinds } from "../events/kinds.ts";
import { isUuid } from "../ids.ts";
import { HIDDEN } from "../input/plain_text.ts";
import { isoTime } from "../input/schemas.ts";

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
type DeliveryBody = { body: string | null; is_boxed: boolean };

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

/** Where a delivery is. */
export const deliveryState = z.enum([
  "pending",
  "sending",
  "delivered",
  "rejected",
  "blocked",
  "failed",
  "held",
  "cancelled",
]);

/** How an attempt ended; `lost` is one whose worker died. */
const attemptOutcome = z.enum(["delivered", "failed", "rejected", "gone", "blocked", "lost"]);

/** A delivery as lists show it. */
export const deliveryAnswer = z.object({
  delivery_id: z.string(),
  event_id: z.string(),
  event: z.string(),
  state: deliveryState,
  attempts: z.int().describe("How many there were, those of earlier schedules too"),
  created_at: isoTime,
  next_attempt_at: isoTime.nullable(),
  finished_at: isoTime.nullable(),
  last_outcome: attemptOutcome.nullable(),
  last_status: z.int().nullable().describe("The HTTP status of the last attempt, if there was an answer"),
});

const attemptAnswer = z.object({
  attempt: z.int(),
  started_at: isoTime,
  ended_at: isoTime,
  outcome: attemptOutcome,
  status: z.int().nullable(),
  detail: z.string().nullable().describe("Why there was no answer"),
  response_excerpt: z.string().nullable().describe("The beginning of the answer, as text; 16 KiB at most"),
});

/** A delivery with its body and its latest attempts. */
export const wholeDeliveryAnswer = deliveryAnswer.extend({
  body_state: z
    .enum(["shown", "secret", "erased"])
    .describe("secret: it carries secrets, so neither it nor what was answered is shown"),
  body: z.string().nullable(),
  latest_attempts: z.array(attemptAnswer).describe("The last one first, 20 at most"),
});

/** Shows a delivery in a list. */
export function showDelivery(record: DeliveryRecord): z.infer<typeof deliveryAnswer> {
  return {
    delivery_id: record.delivery_id,
    event_id: record.event_id,
    event: record.event_type,
    state: record.state,
    attempts: record.attempts,
    created_at: record.created_at.toISOString(),
    next_attempt_at: record.next_attempt_at?.toISOString() ?? null,
    finished_at: record.settled_at?.toISOString() ?? null,
    last_outcome: attemptOutcome.nullable().parse(record.last_outcome),
    last_status: record.last_status,
  };
}

/** Shows a delivery whole; of one that carries secrets neither the body nor what was answered. */
export function showWholeDelivery(
  record: DeliveryRecord,
  content: DeliveryBody,
  attempts: readonly WebhookAttemptRow[],
): z.infer<typeof wholeDeliveryAnswer> {
  const bodyState = bodyStateOf(record.event_type, content);
  return {
    ...showDelivery(record),
    body_state: bodyState,
    body: bodyState === "shown" ? content.body : null,
    latest_attempts: attempts.map((attempt) => showAttempt(attempt, bodyState === "secret")),
  };
}

/** Of a kind that this version does not know, it may be that it carries secrets. */
function bodyStateOf(type: string, { body, is_boxed }: DeliveryBody): "shown" | "secret" | "erased" {
  if (body !== null) return "shown";
  const kind = Object.entries(eventKinds).find(([name]) => name === type)?.[1];
  return is_boxed || kind === undefined || kind.secrets.length > 0 ? "secret" : "erased";
}

function showAttempt(row: WebhookAttemptRow, isSecret: boolean): z.infer<typeof attemptAnswer> {
  const { response_excerpt: excerpt } = row;
  return {
    attempt: row.attempt,
    started_at: row.started_at.toISOString(),
    ended_at: row.ended_at.toISOString(),
    outcome: attemptOutcome.parse(row.outcome),
    status: row.status,
    detail: row.detail,
    response_excerpt: isSecret || excerpt === null ? null : showExcerpt(excerpt),
  };
}

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
