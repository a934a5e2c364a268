import { z } from "zod";
import type { Clock } from "../clock.ts";
import type { Database } from "../db/connection.ts";
import { ApiError } from "../errors.ts";
import { type Route, route } from "../route.ts";
import { freeText, idText, isoTime, isoTimeInput, outcomeWord } from "../schemas.ts";
import { invocationIdText } from "./operation.ts";

const body = z.object({
  outcome: outcomeWord,
  receipt_id: idText.describe("The receipt of the decision that the application acted on"),
  detail: freeText(500).optional(),
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

/** `POST /v1/service/invocations/{invocation_id}/outcome`: what came of an operation, told once. */
export function outcomeRoute({ db, clock }: { db: Database; clock: Clock }): Route {
  return route({
    id: "report_outcome",
    method: "POST",
    path: "/v1/service/invocations/{invocation_id}/outcome",
    summary: "Report what came of an operation; an equal repeat is answered alike",
    access: "api_key",
    params: z.object({ invocation_id: invocationIdText }),
    body,
    answer: { status: 200, schema: answer, description: "The outcome as it is recorded" },
    errors: ["not_found", "outcome_conflict"],
    async handle({ caller, params, body }) {
      const key = {
        account_id: caller.accountId,
        connection_id: caller.connectionId,
        invocation_id: params.invocation_id,
      };
      const reported = {
        outcome: body.outcome,
        outcome_detail: body.detail ?? null,
        outcome_occurred_at: new Date(body.occurred_at),
      };
      await db("invocations")
        .where({ ...key, outcome: null })
        .whereRaw("event_id::text = ?", [body.receipt_id])
        .update({ ...reported, outcome_recorded_at: clock.now() });
      const row = await db("invocations").where(key).first();
      if (!row) throw new ApiError("not_found");
      if (row.event_id !== body.receipt_id || row.outcome_recorded_at === null) {
        throw new ApiError("outcome_conflict", "receipt_id: is not the receipt of this invocation");
      }
      const isSame =
        row.outcome === reported.outcome &&
        row.outcome_detail === reported.outcome_detail &&
        row.outcome_occurred_at?.getTime() === reported.outcome_occurred_at.getTime();
      if (!isSame) throw new ApiError("outcome_conflict");
      return {
        body: {
          invocation_id: row.invocation_id,
          outcome: body.outcome,
          receipt_id: row.event_id,
          detail: row.outcome_detail,
          occurred_at: reported.outcome_occurred_at.toISOString(),
          recorded_at: row.outcome_recorded_at.toISOString(),
        },
      };
    },
  });
}
