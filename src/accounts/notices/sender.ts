import { Counter, Gauge } from "prom-client";
import { type Clock, inTime } from "../../clock.ts";
import { startLoop } from "../../concurrency/loop.ts";
import type { Database } from "../../db/database.ts";
import { type AccountEvent, isAccountEventType, readAccountEvent } from "../../events/kinds.ts";
import type { Logger } from "../../log.ts";
import type { Metrics } from "../../metrics.ts";
import { MAX_ATTEMPTS } from "../mail/retries.ts";
import { describeMailError, type Mail, type Mailer } from "../mail/smtp.ts";
import { renderMail } from "../mailings/render.ts";
import { sendMailings } from "../mailings/sender.ts";
import type { StopTokens } from "../mailings/stop_links.ts";
import { LINK_TYPE, linkContent } from "./links.ts";
import { type ClaimedNotice, claimNotices, readWaiting, recordFailure, recordSent } from "./queue.ts";
import { noticeContent, type Place } from "./texts.ts";

type NoticeOutcome = "sent" | "retried" | "failed";

type NoticeMetrics = {
  waiting(count: number, oldestSeconds: number): void;
  attempt(outcome: NoticeOutcome): void;
};

/** Registers the metrics of notices. */
export function createNoticeMetrics({ registry }: Pick<Metrics, "registry">): NoticeMetrics {
  const registers = [registry];
  const waiting = new Gauge({
    name: "deputize_notices_waiting",
    help: "Notices to account owners and mails about requests that are due",
    registers,
  });
  const oldest = new Gauge({
    name: "deputize_notices_oldest_seconds",
    help: "Seconds for which the oldest of them has been due",
    registers,
  });
  const attempts = new Counter({
    name: "deputize_notice_attempts_total",
    help: "Attempts to mail a notice",
    labelNames: ["outcome"],
    registers,
  });
  return {
    waiting(count, oldestSeconds) {
      waiting.set(count);
      oldest.set(oldestSeconds);
    },
    attempt: (outcome) => attempts.inc({ outcome }),
  };
}

type NoticeDeps = {
  db: Database;
  clock: Clock;
  mailer: Pick<Mailer, "send">;
  log: Logger;
  metrics: Pick<Metrics, "registry">;
  place: Place;
  stopTokens: StopTokens;
  /** Milliseconds after which an attempt fails. */
  attemptMs?: number;
};

/** Maximum number of messages sent at the same time. */
const BATCH = 8;
const ATTEMPT_MS = 15_000;
const PAUSE_MS = 2_000;

/**
 * Creates a sender of notices and of mails about requests. One step claims those that are due, sends them,
 * and returns whether any were due. It throws if the database is unavailable.
 *
 * Each notice is attempted up to 12 times, and then fails. It is sent again only if the result of an attempt
 * is unknown or could not be recorded. The Message-ID contains the event's id, so it is the same each time.
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
    if (state === "failed") {
      log.error({ event_id: notice.event_id }, "a notice failed after its last attempt");
    }
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
      const { event_id, attempts } = notice;
      log.warn({ event_id, attempts, ...describeMailError(error) }, "a notice could not be mailed");
      return false;
    }
  }

  return {
    async step() {
      const claimed = await claimNotices(db, BATCH, clock.now());
      await Promise.all(claimed.map(attempt));
      const mailed = await sendMailings(
        { db, clock, mailer, log, place, tokens: deps.stopTokens, attemptMs, measure: measure.attempt },
        BATCH,
      );
      const { waiting, oldestSeconds } = await readWaiting(db, clock.now());
      measure.waiting(waiting, oldestSeconds);
      return claimed.length > 0 || mailed;
    },
  };
}

/**
 * Starts sending notices. `stop` resolves after the running attempts. Several processes may send
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

function mailOf({ event_id, type, payload, email, organization_name }: ClaimedNotice, place: Place): Mail {
  const content =
    type === LINK_TYPE
      ? linkContent(payload)
      : noticeContent(eventOf(type, payload), { organization_name }, place);
  return { id: event_id, to: email, ...renderMail(content, place) };
}

function eventOf(type: string, payload: string): AccountEvent {
  if (!isAccountEventType(type)) throw new Error(`There is no text for ${type}`);
  return readAccountEvent(type, payload);
}
