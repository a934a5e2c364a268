import { type Clock, inTime } from "../../clock.ts";
import { startLoop } from "../../concurrency/loop.ts";
import type { Database } from "../../db/database.ts";
import { isAccountEventType, readAccountEvent } from "../../events/account_kinds.ts";
import type { Logger } from "../../log.ts";
import type { Metrics } from "../../metrics.ts";
import type { Mail, Mailer } from "../mail/mailer.ts";
import { createNoticeMetrics } from "./metrics.ts";
import {
  type ClaimedNotice,
  claimNotices,
  MAX_ATTEMPTS,
  readWaiting,
  recordFailure,
  recordSent,
} from "./queue.ts";
import { noticeText, type Place } from "./texts.ts";

/** What sending notices needs. */
export type NoticeDeps = {
  db: Database;
  clock: Clock;
  mailer: Pick<Mailer, "send">;
  log: Logger;
  metrics: Pick<Metrics, "registry">;
  place: Place;
  /** Milliseconds until an attempt is given up. */
  attemptMs?: number;
};

/** Most mails under way at the same time. */
const BATCH = 8;
const ATTEMPT_MS = 15_000;
const PAUSE_MS = 2_000;

/**
 * Sends notices that are due. A step claims some, sends them, and says whether there were any; it throws when
 * the database is away. A notice is mailed at least once, and again only when the result of an attempt could
 * not be known or written; the mail has the event's id in its Message-ID each time. A mail server that is
 * away costs attempts, of which there are 12 over three days.
 */
export function createNoticeSender({ attemptMs = ATTEMPT_MS, ...deps }: NoticeDeps): {
  step(): Promise<boolean>;
} {
  const { db, clock, mailer, log, place } = deps;
  const measure = createNoticeMetrics(deps.metrics);

  async function attempt(notice: ClaimedNotice): Promise<void> {
    if (await isSent(notice)) {
      await recordSent(db, notice, clock.now());
      return measure.attempt("sent");
    }
    const state = await recordFailure(db, notice, clock.now());
    measure.attempt(state === "failed" ? "failed" : "retried");
    if (state === "failed") log.error({ event_id: notice.event_id }, "a notice was given up");
  }

  async function isSent(notice: ClaimedNotice): Promise<boolean> {
    if (notice.attempts > MAX_ATTEMPTS) return false;
    try {
      await inTime(
        attemptMs,
        mailer.send(mailOf(notice, place)),
        () => new Error("The mail server took too long"),
      );
      return true;
    } catch (error) {
      const { code, responseCode } = error as { code?: unknown; responseCode?: unknown };
      const { event_id, attempts } = notice;
      log.warn(
        { event_id, attempts, smtp_code: code, smtp_response_code: responseCode },
        "a notice could not be mailed",
      );
      return false;
    }
  }

  return {
    async step() {
      const claimed = await claimNotices(db, BATCH, clock.now());
      await Promise.all(claimed.map(attempt));
      const { waiting, oldestSeconds } = await readWaiting(db, clock.now());
      measure.waiting(waiting, oldestSeconds);
      return claimed.length > 0;
    },
  };
}

/**
 * Sends notices until it is stopped, which takes as long as an attempt may. Several processes may do so
 * concurrently.
 */
export function startNotices(deps: NoticeDeps): { stop(): Promise<void> } {
  const { step } = createNoticeSender(deps);
  return startLoop({
    name: "notices",
    log: deps.log,
    step,
    shortestPause: PAUSE_MS,
    longestPause: PAUSE_MS,
  });
}

function mailOf({ event_id, type, payload, email }: ClaimedNotice, place: Place): Mail {
  if (!isAccountEventType(type)) throw new Error(`There is no text for ${type}`);
  return { id: event_id, to: email, ...noticeText(readAccountEvent(type, payload), place) };
}
