import { z } from "zod";
import type { Database } from "../db/database.ts";
import type { WebhookAttemptRow, WebhookDeliveryRow } from "../db/tables.ts";
import { ApiError } from "../errors.ts";
import { eventKinds } from "../events/kinds.ts";
import { isUuid } from "../ids.ts";
import { HIDDEN } from "../input/plain_text.ts";
import { isoTime } from "../input/schemas.ts";

/** A delivery and the result of its last attempt, without its body. */
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
> & {
  connection_id: string;
  org_id: string;
  last_outcome: string | null;
  last_status: number | null;
};

const LAST = `left join lateral (
  select a.outcome, a.status from webhook_attempts a where a.delivery_id = d.delivery_id order by a.attempt desc limit 1
) last on true`;

/**
 * Selects all deliveries of an endpoint, each with the connection and the account of its event: those of a
 * customer or of the platform. Add conditions on `d` (`webhook_deliveries`).
 */
export function selectDeliveries(db: Database, endpointId: string) {
  return db("webhook_deliveries as d")
    .join("webhook_endpoints as e", "e.endpoint_id", "d.endpoint_id")
    .join(
      "connections as c",
      "c.connection_id",
      db.raw("coalesce(d.customer_connection_id, e.connection_id)"),
    )
    .joinRaw(LAST)
    .where({ "d.endpoint_id": endpointId })
    .select<DeliveryRecord[]>(
      "d.delivery_id",
      "d.event_id",
      "d.event_type",
      "c.connection_id",
      db.raw("coalesce(c.customer_account_id, c.account_id) as org_id"),
      "d.state",
      "d.attempts",
      "d.created_at",
      "d.next_attempt_at",
      "d.settled_at",
      "last.outcome as last_outcome",
      "last.status as last_status",
    );
}

/** Returns a delivery of the endpoint. Throws `not_found` if the endpoint has no such delivery. */
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

/** `is_boxed` means that the body is stored encrypted, because it contains secrets. */
type DeliveryBody = { body: string | null; is_boxed: boolean };

/** Returns the body of a delivery. Does not decrypt an encrypted body. */
export async function readBody(db: Database, deliveryId: string): Promise<DeliveryBody> {
  const row = await db("webhook_deliveries")
    .where({ delivery_id: deliveryId })
    .first<DeliveryBody | undefined>("body", db.raw("body_sealed is not null as is_boxed"));
  return row ?? { body: null, is_boxed: false };
}

/** Returns the latest attempts of a delivery, newest first. */
export async function latestAttempts(
  db: Database,
  deliveryId: string,
  limit: number,
): Promise<WebhookAttemptRow[]> {
  return db("webhook_attempts").where({ delivery_id: deliveryId }).orderBy("attempt", "desc").limit(limit);
}

/** The state of a delivery. */
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

/** `lost` means that the worker died during the attempt. */
const attemptOutcome = z.enum(["delivered", "failed", "rejected", "gone", "blocked", "lost"]);

/** A delivery as lists show it. */
export const deliveryAnswer = z.object({
  delivery_id: z.string(),
  event_id: z.string(),
  event: z.string(),
  connection_id: z.string(),
  org_id: z.string(),
  state: deliveryState,
  attempts: z.int().describe("Attempts, also of earlier schedules"),
  created_at: isoTime,
  next_attempt_at: isoTime.nullable(),
  finished_at: isoTime.nullable(),
  last_outcome: attemptOutcome.nullable(),
  last_status: z.int().nullable().describe("HTTP status of the last attempt, if any"),
});

const attemptAnswer = z.object({
  attempt: z.int(),
  started_at: isoTime,
  ended_at: isoTime,
  outcome: attemptOutcome,
  status: z.int().nullable(),
  detail: z.string().nullable().describe("Why there was no response"),
  response_excerpt: z.string().nullable().describe("The first 16 KiB of the response, as text"),
});

/** A delivery with its body and its latest attempts. */
export const wholeDeliveryAnswer = deliveryAnswer.extend({
  body_state: z
    .enum(["shown", "secret", "erased"])
    .describe("secret: it contains secrets, so neither it nor the responses are shown"),
  body: z.string().nullable(),
  latest_attempts: z.array(attemptAnswer).describe("Newest first, at most 20"),
});

/** Returns a delivery as lists show it. */
export function showDelivery(record: DeliveryRecord): z.infer<typeof deliveryAnswer> {
  return {
    delivery_id: record.delivery_id,
    event_id: record.event_id,
    event: record.event_type,
    connection_id: record.connection_id,
    org_id: record.org_id,
    state: record.state,
    attempts: record.attempts,
    created_at: record.created_at.toISOString(),
    next_attempt_at: record.next_attempt_at?.toISOString() ?? null,
    finished_at: record.settled_at?.toISOString() ?? null,
    last_outcome: attemptOutcome.nullable().parse(record.last_outcome),
    last_status: record.last_status,
  };
}

/** Returns a delivery with its body and attempts. If it contains secrets, omits body and responses. */
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

/** An event kind that this version does not know may contain secrets, so its body counts as secret. */
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

/** Control, format, private-use and unassigned characters, except line breaks and tabs. */
const STRANGE = /[^\P{C}\n\t]/gu;
const EVERY_HIDDEN = new RegExp(HIDDEN.source, "gu");

/**
 * Converts a receiver's response to text that is safe to show. Replaces invalid UTF-8 and invisible
 * characters with U+FFFD. A malicious response could otherwise control a terminal or hide text.
 */
export function showExcerpt(bytes: Uint8Array): string {
  return Buffer.from(bytes)
    .toString("utf8")
    .replaceAll("\r\n", "\n")
    .replaceAll(STRANGE, "\ufffd")
    .replaceAll(EVERY_HIDDEN, "\ufffd");
}
