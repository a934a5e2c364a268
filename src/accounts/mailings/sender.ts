import { type Clock, inTime } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import type { Logger } from "../../log.ts";
import { describeMailError, type Mail, type Mailer } from "../mail/smtp.ts";
import {
  type ClaimedMailing,
  claimMailings,
  recordMailed,
  recordNeedless,
  recordUnmailed,
  spreadTopics,
} from "./queue.ts";
import { renderMail } from "./render.ts";
import type { StopTokens } from "./stop_links.ts";
import { readSubjects, type Subject } from "./subjects.ts";
import { mailContent } from "./texts.ts";

/** The path of the console's page that stops one kind of mail. */
export const STOP_PAGE = "/console/stop-mails";

type MailingDeps = {
  db: Database;
  clock: Clock;
  mailer: Pick<Mailer, "send">;
  log: Logger;
  /** The service's base URL and name. */
  place: { baseUrl: string; word: string };
  tokens: StopTokens;
  attemptMs: number;
  measure(outcome: "sent" | "retried" | "failed"): void;
};

/**
 * Sends the mails about requests that are due, up to `count` at the same time. Returns whether any were due.
 * What has waited for one person goes into one mail. A mail is sent a second time only if the result of an
 * attempt is unknown.
 */
export async function sendMailings(deps: MailingDeps, count: number): Promise<boolean> {
  const { db, clock } = deps;
  const isMore = await spreadTopics(db, clock.now());
  const claimed = await claimMailings(db, count, clock.now());
  await Promise.all(claimed.map((mailing) => attempt(deps, mailing)));
  return isMore || claimed.length > 0;
}

async function attempt(deps: MailingDeps, mailing: ClaimedMailing): Promise<void> {
  const { db, clock, log, measure } = deps;
  const { account_id: person, kind, request_ids: requestIds } = mailing;
  const [first, ...others] = await readSubjects(db, { person, kind, requestIds, now: clock.now() });
  if (first === undefined) return recordNeedless(db, mailing, clock.now());
  if (await isSent(deps, mailing, [first, ...others])) {
    await recordMailed(db, mailing, clock.now());
    return measure("sent");
  }
  const state = await recordUnmailed(db, mailing, clock.now());
  measure(state === "failed" ? "failed" : "retried");
  if (state === "failed") log.error({ account_id: person, kind }, "a mail about requests failed for good");
}

async function isSent(
  { mailer, clock, log, place, tokens, attemptMs }: MailingDeps,
  { account_id, kind, email, attempts }: ClaimedMailing,
  subjects: readonly [Subject, ...Subject[]],
): Promise<boolean> {
  const token = tokens.create(account_id, kind);
  const query = new URLSearchParams({ token });
  const { baseUrl, word } = place;
  const stopPath = `${STOP_PAGE}?${query}`;
  const stopCall = `/v1/${word}/mails/stop?${query}`;
  const content = mailContent(kind, subjects, clock.now());
  const mail: Mail = { to: email, ...renderMail(content, { baseUrl, stopPath, stopCall }) };
  try {
    await inTime(attemptMs, mailer.send(mail), () => new Error("The mail server took too long"));
    return true;
  } catch (error) {
    log.warn(
      { account_id, kind, attempts, ...describeMailError(error) },
      "a mail about requests was not sent",
    );
    return false;
  }
}
