import { hash, timingSafeEqual } from "node:crypto";
import { z } from "zod";
import type { Database } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { isUuid, timeOfId } from "../ids.ts";
import { idText, isoTime, outcomeWord } from "../input/schemas.ts";
import { canonicalBytes } from "../protocol/encoding/canonical.ts";
import { ProtocolError } from "../protocol/encoding/errors.ts";
import { type AccountCaller, type Route, route } from "../route.ts";
import { readHistoryBegin } from "./archive/write_archive.ts";

const outcome = z.object({
  outcome: outcomeWord,
  detail: z.string().nullable(),
  occurred_at: isoTime,
  recorded_at: isoTime,
});

const answer = z.object({
  receipt_id: z.string(),
  receipt: z.record(z.string(), z.unknown()),
  canonical: z.string().describe("The canonical JSON of the receipt. The hash covers exactly these bytes"),
  receipt_hash: z.string().describe("sha256:<hex> of canonical"),
  outcome: outcome.nullable().describe("The outcome that the application reported"),
});

/** The body of the answer. */
export type ReceiptAnswer = z.infer<typeof answer>;

/** `GET /v1/service/receipts/{receipt_id}`: the record of one decision, exactly as it was hashed. */
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

/** Finds a receipt by the time in its id, so the query reads only one place in the account's history. */
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

const checkBody = z.object({
  receipt: z
    .record(z.string(), z.unknown())
    .describe(
      "The receipt as the answer of verify contains it, or the field receipt of a receipt that was read",
    ),
});
const checkAnswer = z.object({
  genuine: z.boolean().describe("This service made it, unchanged"),
  receipt_hash: z.string().describe("sha256:<hex> of the submitted receipt"),
});

/** The body of the answer. */
export type ReceiptCheckAnswer = z.infer<typeof checkAnswer>;

/**
 * `POST /v1/service/receipts/check`: checks whether this service issued a receipt and the receipt is
 * unchanged. Any signed-in person may ask about any receipt. A positive answer requires the complete content,
 * which nobody can guess. A negative answer reveals nothing.
 */
export function receiptCheckRoute({ db }: { db: Database }): Route {
  return route({
    id: "check_receipt",
    method: "POST",
    path: "/v1/service/receipts/check",
    summary: "Check that a receipt is genuine and unchanged",
    access: "session",
    reads: true,
    roles: "person",
    body: checkBody,
    answer: { status: 200, schema: checkAnswer, description: "The result of the check" },
    errors: [],
    async handle({ body: { receipt } }) {
      const found = hashOf(receipt);
      const kept = await keptHash(db, receipt);
      if (kept === undefined) await refuseDropped(db, receipt);
      const genuine = kept?.length === found.length && timingSafeEqual(kept, found);
      return { body: { genuine, receipt_hash: `sha256:${found.toString("hex")}` } };
    },
  });
}

function hashOf(receipt: Record<string, unknown>): Buffer {
  try {
    return hash("sha256", canonicalBytes(receipt), "buffer");
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    throw new ApiError("invalid_request", `body.receipt: cannot be a receipt: ${error.message}`);
  }
}

/** Throws for a receipt of a dropped month. Only the archive can show whether such a receipt is genuine. */
async function refuseDropped(db: Database, { receipt_id: id }: Record<string, unknown>): Promise<void> {
  const decidedAt = typeof id === "string" && isUuid(id) ? timeOfId(id) : undefined;
  const begin = await readHistoryBegin(db);
  if (decidedAt !== undefined && begin !== undefined && decidedAt < begin) {
    throw new ApiError(
      "invalid_request",
      `body.receipt: the history begins at ${begin.toISOString()}: check the receipt in the archive of its month`,
    );
  }
}

async function keptHash(db: Database, receipt: Record<string, unknown>): Promise<Buffer | undefined> {
  const { receipt_id: id, connection_id: connectionId } = receipt;
  if (typeof id !== "string" || typeof connectionId !== "string") return undefined;
  const decidedAt = isUuid(id) ? timeOfId(id) : undefined;
  if (decidedAt === undefined || !isUuid(connectionId)) return undefined;
  const row = await db("audit_events as e")
    .join("connections as c", "c.account_id", "e.account_id")
    .where({ "c.connection_id": connectionId, "e.occurred_at": decidedAt, "e.event_id": id })
    .first("e.receipt_hash");
  return row?.receipt_hash ?? undefined;
}
