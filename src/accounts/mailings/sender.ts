import { createHash } from "node:crypto";
import { type Clock, inTime } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { isUuid } from "../../ids.ts";
import type { Logger } from "../../log.ts";
import { describeMailError, isRefusedForGood, type Mail, type Mailer } from "../mail/smtp.ts";
import { outcomeMail } from "./proposal_outcomes.ts";
import { proposalMail } from "./proposals.ts";
import {
  type ClaimedMail,
  claimMails,
  recordMailed,
  recordNeedless,
  recordUnmailed,
  spreadTopics,
} from "./queue.ts";
import { renderMail } from "./render.ts";
import type { StopTokens } from "./stop_links.ts";
import { readSubjects } from "./subjects.ts";
import { type MailContent, mailContent } from "./texts.ts";

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
 * All requests of one account that wait for one person go into one mail. The same mail goes out again only if
 * nobody knows whether the server accepted it.
 */
export async function sendMailings(deps: MailingDeps, count: number): Promise<boolean> {
  const { db, clock } = deps;
  const isMore = await spreadTopics(db, clock.now());
  const claimed = await claimMails(db, count, clock.now());
  await Promise.all(claimed.map((mailing) => attempt(deps, mailing)));
  return isMore || claimed.length > 0;
}

async function attempt(deps: MailingDeps, claimed: ClaimedMail): Promise<void> {
  const { db, clock, log, measure } = deps;
  const { person_id, kind, choice } = claimed;
  const { content, mailing } = await contentOf(db, claimed, clock.now());
  if (content === undefined || choice === "off") return recordNeedless(db, mailing, clock.now());
  const outcome = await send(deps, mailing, content);
  if (outcome === "sent") {
    await recordMailed(db, mailing, clock.now());
    return measure("sent");
  }
  if (outcome === "refused") {
    await recordNeedless(db, mailing, clock.now());
    return measure("failed");
  }
  const state = await recordUnmailed(db, mailing, clock.now());
  measure(state === "failed" ? "failed" : "retried");
  if (state === "failed") log.error({ account_id: person_id, kind }, "a mail about requests failed for good");
}

/** The next mail, `undefined` if nothing needs it any longer, and the part of the claim that it handles. */
type NextMail = { content: MailContent | undefined; mailing: ClaimedMail };

/** Returns what a mail says now. Outcomes of proposals wait for the mail after that about requests. */
async function contentOf(db: Database, mailing: ClaimedMail, now: Date): Promise<NextMail> {
  const { kind } = mailing;
  if (kind === "product_proposed") return { content: await proposalMail(db, mailing, now), mailing };
  const { subjects, total } = await readSubjects(db, { ...mailing, kind }, now);
  const [first, ...others] = subjects;
  if (first === undefined) {
    return {
      content: kind === "request_decided" ? await outcomeMail(db, mailing, now) : undefined,
      mailing,
    };
  }
  const request_ids = mailing.request_ids.filter((id) => !isUuid(id));
  return {
    content: mailContent(kind, [first, ...others], { now, total }),
    mailing: { ...mailing, request_ids },
  };
}

/** Returns `refused` if the server will never accept this mail, for example because the address is gone. */
async function send(
  { mailer, log, place, tokens, attemptMs }: MailingDeps,
  { person_id, account_id, kind, email, attempts, request_ids, omitted }: ClaimedMail,
  content: MailContent,
): Promise<"sent" | "refused" | "failed"> {
  const token = tokens.create(person_id, kind);
  const query = new URLSearchParams({ token });
  const { baseUrl, word } = place;
  const stop = { page: `${STOP_PAGE}?${query}`, call: `/v1/${word}/mails/stop?${query}` };
  const id = createHash("sha256")
    .update([person_id, account_id, kind, ...request_ids, omitted].join(" "))
    .digest("hex");
  const mail: Mail = {
    id: id.slice(0, 32),
    to: email,
    ...renderMail(content, { baseUrl, stop }),
  };
  try {
    await inTime(attemptMs, mailer.send(mail), () => new Error("The mail server took too long"));
    return "sent";
  } catch (error) {
    log.warn(
      { account_id: person_id, kind, attempts, ...describeMailError(error) },
      "a mail about requests was not sent",
    );
    return isRefusedForGood(error) ? "refused" : "failed";
  }
}
