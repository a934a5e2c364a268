import { hash, timingSafeEqual } from "node:crypto";
import { z } from "zod";
import type { Database } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { isUuid, timeOfId } from "../ids.ts";
import { canonicalBytes } from "../protocol/encoding/canonical.ts";
import { ProtocolError } from "../protocol/encoding/errors.ts";
import { type Route, route } from "../route.ts";
import { readHistoryBegin } from "./archive/archives.ts";

const body = z.object({
  receipt: z
    .record(z.string(), z.unknown())
    .describe("The receipt as verify answered it, or as the field receipt of a receipt that was read"),
});
const answer = z.object({
  genuine: z
    .boolean()
    .describe("Whether this service made this receipt, and nothing of it was changed since then"),
  receipt_hash: z.string().describe("sha256:<hex> of what was sent, in canonical JSON"),
});

/** What it answers. */
export type ReceiptCheckAnswer = z.infer<typeof answer>;

/**
 * `POST /v1/service/receipts/check`: whether a receipt is one of this service's, as it was made. Anybody who
 * is signed in may ask, whosever it is: a yes takes every word of the receipt, which nobody can guess, and a
 * no says nothing.
 */
export function receiptCheckRoute({ db }: { db: Database }): Route {
  return route({
    id: "check_receipt",
    method: "POST",
    path: "/v1/service/receipts/check",
    summary: "Check that a receipt is genuine and unchanged",
    access: "session",
    roles: "person",
    body,
    answer: { status: 200, schema: answer, description: "What was found" },
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

/** A receipt of a month that was dropped may be genuine: only its archive can say so. */
async function refuseDropped(db: Database, { receipt_id: id }: Record<string, unknown>): Promise<void> {
  const decidedAt = typeof id === "string" && isUuid(id) ? timeOfId(id) : undefined;
  const begin = await readHistoryBegin(db);
  if (decidedAt !== undefined && begin !== undefined && decidedAt < begin) {
    throw new ApiError(
      "invalid_request",
      `body.receipt: the history is kept from ${begin.toISOString()} on: check it in the archive of its month`,
    );
  }
}

/** The hash of the receipt that this one says it is: of its id, in the history of its account. */
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
