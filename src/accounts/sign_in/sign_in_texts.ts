import type { Database } from "../../db/database.ts";
import type { Logger } from "../../log.ts";
import { describeMailError, isInDoubt, type Mail, type Mailer } from "../mail/smtp.ts";
import { CODE_SECONDS, CODE_TRIES, type CodeHashes, DAY_TRIES, LINK_SECONDS } from "./codes.ts";
import { forgetMail, planNotice } from "./sign_in_mails.ts";

const NOBODY_ASKS = "Nobody who works for us will ask you for it.";
const NOT_YOU = "If you did not try to sign in, you need not do anything.";

/** Returns the email with a six-digit code. */
export function digitsMail(email: string, code: string): Mail {
  return {
    to: email,
    subject: "Your sign-in code",
    text: lines(
      `Your sign-in code is ${code}`,
      "",
      `It can be used once, within ${CODE_SECONDS / 60} minutes. ${NOBODY_ASKS}`,
      NOT_YOU,
    ),
  };
}

/**
 * Returns the email with a link code. In the link, the code is after `#`, which browsers do not send. Opening
 * the link does not sign anyone in, so a program that follows links does not use up the code.
 */
export function linkMail(email: string, code: string, signInUrl: string): Mail {
  return {
    to: email,
    subject: "Your sign-in link",
    text: lines(
      "Sign in with this code:",
      "",
      code,
      "",
      "Or open this link:",
      "",
      `${signInUrl}#code=${code}`,
      "",
      `It can be used once, within ${LINK_SECONDS / 60} minutes. ${NOBODY_ASKS}`,
      "It is longer than usual because many codes were requested or tried for this address.",
      `For the next half hour, no other mail is sent to this address: use this one. ${NOT_YOU}`,
    ),
  };
}

/** Returns the email that reports wrong codes, without their number: one can count as two tries. */
function noticeMail(email: string): Mail {
  return {
    to: email,
    subject: "Wrong sign-in codes for your address",
    text: lines(
      "Wrong sign-in codes were entered for this address in the last 24 hours.",
      "",
      "If that was not you, somebody may be trying to sign in as you. You need not do anything: after",
      `at most ${DAY_TRIES} wrong codes in a day, sign-in mails carry a long code that nobody can guess.`,
      "Do not give a code to anybody who asks you for one. This notice is sent at most once a day.",
    ),
  };
}

function lines(...text: string[]): string {
  return [...text, ""].join("\n");
}

/** Dependencies for sending a notice. */
export type FailureNotice = { db: Database; mailer: Pick<Mailer, "send">; hashes: CodeHashes; log: Logger };

/**
 * Sends an email to an address after five or more counted tries in 24 hours, at most once in that time. It
 * does not matter whether the address has an account. Never rejects because of the mail server. If sending
 * fails, the next wrong code tries again.
 */
export async function mailFailureNotice(
  { db, mailer, hashes, log }: FailureNotice,
  email: string,
  now: Date,
): Promise<void> {
  const planned = await planNotice(db, hashes.address(email), { from: CODE_TRIES, now });
  if (planned === undefined) return;
  log.warn({ tries: planned.tries }, "an address has had repeated wrong sign-in codes");
  try {
    await mailer.send(noticeMail(email));
  } catch (error) {
    log.warn(describeMailError(error), "a notice of wrong sign-in codes could not be mailed");
    if (!isInDoubt(error)) await forgetMail(db, planned.mailId);
  }
}
