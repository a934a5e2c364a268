import { addSeconds } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { isMadeWith } from "../ids.ts";
import { CHALLENGE_WINDOW_SECONDS } from "../protocol/encoding/constants.ts";
import type { HistoryRow } from "./history_entry.ts";

/** Maximum number of an account's events with one certificate that are compared. */
const COMPARED = 1_000;
/** The clocks of two processes differ by at most this many seconds. */
const SLACK_SECONDS = 10;
/** A decision follows its proof within this many seconds. */
const LATER_SECONDS = CHALLENGE_WINDOW_SECONDS + SLACK_SECONDS;

const BUNDLE_HASH = "receipt::json ->> 'bundle_hash'";

type Event = Pick<HistoryRow, "event_id" | "occurred_at" | "cert_id" | "decision">;
type Decision = { event_id: string; hash: string | null };

/**
 * Returns the id of the event about the same proof: for a decision the presented proof, and for a presented
 * proof its decision. Returns `undefined` if the account's history has no such event. A presented proof
 * remains in the history for minutes. The search compares the {@link COMPARED} nearest events with the same
 * certificate.
 */
export async function findCounterpart(
  db: Database,
  accountId: string,
  event: Event,
): Promise<string | undefined> {
  const { occurred_at: at, event_id, cert_id } = event;
  const near = db("audit_events").where({ account_id: accountId, cert_id }).limit(COMPARED);
  if (event.decision === null) {
    const decisions: Decision[] = await near
      .whereNotNull("receipt")
      .whereBetween("occurred_at", [addSeconds(at, -SLACK_SECONDS), addSeconds(at, LATER_SECONDS)])
      .orderBy("occurred_at")
      .select("event_id", db.raw(`${BUNDLE_HASH} as hash`));
    return decisions.find(({ hash }) => isProof(event_id, hash))?.event_id;
  }
  const decided: Pick<Decision, "hash"> | undefined = await db("audit_events")
    .where({ account_id: accountId, occurred_at: at, event_id })
    .whereNotNull("receipt")
    .first(db.raw(`${BUNDLE_HASH} as hash`));
  if (decided === undefined) return undefined;
  const proofs: Pick<Event, "event_id">[] = await near
    .whereNull("decision")
    .whereBetween("occurred_at", [addSeconds(at, -LATER_SECONDS), addSeconds(at, SLACK_SECONDS)])
    .orderBy("occurred_at", "desc")
    .select("event_id");
  return proofs.find((proof) => isProof(proof.event_id, decided.hash))?.event_id;
}

/** Returns whether a presented proof has this hash, with which its event's id was made. */
function isProof(eventId: string, hash: string | null): boolean {
  return hash !== null && isMadeWith(eventId, Buffer.from(hash, "hex"));
}
