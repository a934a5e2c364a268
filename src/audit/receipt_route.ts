import { z } from "zod";
import type { Database } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { isUuid, timeOfId } from "../ids.ts";
import { idText, isoTime, outcomeWord } from "../input/schemas.ts";
import { type AccountCaller, type Route, route } from "../route.ts";

const outcome = z.object({
  outcome: outcomeWord,
  detail: z.string().nullable(),
  occurred_at: isoTime,
  recorded_at: isoTime,
});

const answer = z.object({
  receipt_id: z.string(),
  receipt: z.record(z.string(), z.unknown()),
  canonical: z.string().describe("The receipt's canonical JSON: the bytes that the hash is over"),
  receipt_hash: z.string().describe("sha256:<hex> of canonical"),
  outcome: outcome.nullable().describe("What the application reported of an operation-bound decision"),
});

/** What it answers. */
export type ReceiptAnswer = z.infer<typeof answer>;

/**
 * `GET /v1/service/receipts/{receipt_id}`: the record of one decision, as it was hashed when the decision was
 * made.
 */
export function receiptRoute({ db }: { db: Database }): Route {
  return route({
    id: "get_receipt",
    method: "GET",
    path: "/v1/service/receipts/{receipt_id}",
    summary: "Read the receipt of a decision",
    access: "account",
    roles: ["approver", "developer", "auditor"],
    params: z.object({ receipt_id: idText }),
    answer: { status: 200, schema: answer, description: "The receipt" },
    errors: ["not_found"],
    async handle({ caller, params }) {
      const row = await findReceipt(db, caller, params.receipt_id);
      if (row === undefined) throw new ApiError("not_found");
      return {
        body: {
          receipt_id: row.event_id,
          receipt: JSON.parse(row.receipt) as Record<string, unknown>,
          canonical: row.receipt,
          receipt_hash: `sha256:${row.receipt_hash.toString("hex")}`,
          outcome: showOutcome(row),
        },
      };
    },
  });
}

type ReceiptRow = {
  event_id: string;
  receipt: string;
  receipt_hash: Buffer;
  outcome: z.infer<typeof outcome>["outcome"] | null;
  detail: string | null;
  occurred_at: Date | null;
  recorded_at: Date | null;
};

/**
 * A receipt's id carries the moment of its decision, so that the history is entered at one place of one
 * account.
 */
async function findReceipt(
  db: Database,
  { accountId, connectionId }: AccountCaller,
  receiptId: string,
): Promise<ReceiptRow | undefined> {
  const decidedAt = isUuid(receiptId) ? timeOfId(receiptId) : undefined;
  if (decidedAt === undefined) return undefined;
  return db("audit_events as e")
    .leftJoin("outcomes as o", (on) =>
      on
        .on("o.account_id", "e.account_id")
        .on("o.decided_at", "e.occurred_at")
        .on("o.event_id", "e.event_id"),
    )
    .where({ "e.account_id": accountId, "e.occurred_at": decidedAt, "e.event_id": receiptId })
    .modify((found) => {
      if (connectionId !== null) found.where({ "e.connection_id": connectionId });
    })
    .whereNotNull("e.receipt")
    .first(
      "e.event_id",
      "e.receipt",
      "e.receipt_hash",
      "o.outcome",
      "o.detail",
      "o.occurred_at",
      "o.recorded_at",
    );
}

function showOutcome(row: ReceiptRow): z.infer<typeof outcome> | null {
  const { outcome, detail, occurred_at, recorded_at } = row;
  if (outcome === null || occurred_at === null || recorded_at === null) return null;
  return { outcome, detail, occurred_at: occurred_at.toISOString(), recorded_at: recorded_at.toISOString() };
}
