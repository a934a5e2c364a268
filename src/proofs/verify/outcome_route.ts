import { z } from "zod";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import type { OutcomeRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import { isUuid, timeOfId } from "../../ids.ts";
import { idText, isoTime, isoTimeInput, outcomeWord, recordedText } from "../../input/schemas.ts";
import { type ApiKeyCaller, type Route, route } from "../../route.ts";
import { invocationIdText } from "../operation.ts";

const body = z.object({
  outcome: outcomeWord,
  receipt_id: idText.describe("The receipt of the decision that the application acted on"),
  detail: recordedText(500).optional(),
  occurred_at: isoTimeInput,
});

const answer = z.object({
  invocation_id: z.string(),
  outcome: outcomeWord,
  receipt_id: z.string(),
  detail: z.string().nullable(),
  occurred_at: isoTime,
  recorded_at: isoTime,
});

/** `POST /v1/service/invocations/{invocation_id}/outcome`: records the outcome of an operation, once. */
export function outcomeRoute({ db, clock }: { db: Database; clock: Clock }): Route {
  return route({
    id: "report_outcome",
    method: "POST",
    path: "/v1/service/invocations/{invocation_id}/outcome",
    summary:
      "Report the outcome of an operation; a repeat with the same outcome, receipt and detail gets the same answer",
    access: "api_key",
    keyRoles: ["verify"],
    params: z.object({ invocation_id: invocationIdText }),
    body,
    answer: { status: 200, schema: answer, description: "The outcome as it is recorded" },
    errors: ["not_found", "outcome_conflict"],
    async handle({ caller, params, body }) {
      const decision = await findDecision(db, caller, params.invocation_id, body.receipt_id);
      if (decision === undefined) throw await refusalOf(db, caller, params.invocation_id);
      const reported = {
        outcome: body.outcome,
        detail: body.detail ?? null,
        occurred_at: new Date(body.occurred_at),
      };
      await db("outcomes")
        .insert({ ...decision, ...reported, recorded_at: clock.now() })
        .onConflict()
        .ignore();
      const row = await db("outcomes").where(decision).first();
      if (row === undefined) throw new ApiError("not_found");
      if (row.outcome !== reported.outcome || row.detail !== reported.detail) {
        throw new ApiError("outcome_conflict");
      }
      return {
        body: {
          invocation_id: params.invocation_id,
          outcome: row.outcome,
          receipt_id: row.event_id,
          detail: row.detail,
          occurred_at: row.occurred_at.toISOString(),
          recorded_at: row.recorded_at.toISOString(),
        },
      };
    },
  });
}

/** Finds the decision by its receipt in the history, which is kept longer than the invocation. */
async function findDecision(
  db: Database,
  { accountId, connectionId }: ApiKeyCaller,
  invocationId: string,
  receiptId: string,
): Promise<Pick<OutcomeRow, "account_id" | "decided_at" | "event_id"> | undefined> {
  const decidedAt = isUuid(receiptId) ? timeOfId(receiptId) : undefined;
  if (decidedAt === undefined) return undefined;
  return db("audit_events")
    .where({
      account_id: accountId,
      occurred_at: decidedAt,
      event_id: receiptId,
      connection_id: connectionId,
    })
    .whereIn("decision", ["allow", "deny"])
    .whereRaw("receipt::json ->> 'invocation_id' = ?", [invocationId])
    .first("account_id", "occurred_at as decided_at", "event_id");
}

async function refusalOf(
  db: Database,
  { accountId, connectionId }: ApiKeyCaller,
  invocationId: string,
): Promise<ApiError> {
  const key = { account_id: accountId, connection_id: connectionId, invocation_id: invocationId };
  const isKnown = await db("invocations").where(key).first("event_id");
  if (!isKnown) return new ApiError("not_found");
  return new ApiError("outcome_conflict", "receipt_id: is not the receipt of this invocation");
}
