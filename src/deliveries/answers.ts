import { z } from "zod";
import type { WebhookAttemptRow, WebhookRecoveryRow } from "../db/tables.ts";
import { eventKinds } from "../events/kinds.ts";
import { isoTime } from "../input/schemas.ts";
import { type DeliveryBody, type DeliveryRecord, showExcerpt } from "./delivery_record.ts";

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

/** States that a recovery may take deliveries of. */
export const recoverableState = z.enum(["failed", "rejected", "blocked", "delivered"]);

/** A recovery. */
export const recoveryAnswer = z.object({
  recovery_id: z.string(),
  state: z.enum(["running", "done", "cancelled"]),
  since: isoTime,
  until: isoTime,
  states: z.array(recoverableState),
  examined: z.int().describe("Deliveries of the range that were looked at so far"),
  resent: z.int(),
  left_out: z.int().describe("In one of the states, and without a body or with 50 attempts"),
  created_at: isoTime,
  finished_at: isoTime.nullable(),
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

/** Shows a recovery. */
export function showRecovery(row: WebhookRecoveryRow): z.infer<typeof recoveryAnswer> {
  return {
    recovery_id: row.recovery_id,
    state: row.state,
    since: row.since.toISOString(),
    until: row.until.toISOString(),
    states: row.states.map((state) => recoverableState.parse(state)),
    examined: row.examined,
    resent: row.resent,
    left_out: row.left_out,
    created_at: row.created_at.toISOString(),
    finished_at: row.finished_at?.toISOString() ?? null,
  };
}
