import type { Mail } from "../mail/mailer.ts";
import { DAY_TRIES } from "./code_bounds.ts";
import { CODE_SECONDS, LINK_SECONDS } from "./codes.ts";

const NOBODY_ASKS = "Nobody who works for us will ask you for it.";
const NOT_YOU = "If you did not try to sign in, you need not do anything.";

/** The mail of a code of six digits. */
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
 * The mail of a long code. With `signInUrl` it has a link to that page, and the code after `#`, which a
 * browser keeps to itself: opening the link signs nobody in, so a program that follows links in mails uses
 * nothing up.
 */
export function linkMail(email: string, code: string, signInUrl: string | undefined): Mail {
  const link = signInUrl === undefined ? [] : ["", "Or open this link:", "", `${signInUrl}#code=${code}`];
  return {
    to: email,
    subject: "Your sign-in link",
    text: lines(
      "Sign in with this code:",
      "",
      code,
      ...link,
      "",
      `It can be used once, within ${LINK_SECONDS / 60} minutes. ${NOBODY_ASKS}`,
      "It is longer than usual because many codes were asked for or tried for this address.",
      `For the next half hour no other mail is sent for it: use this one. ${NOT_YOU}`,
    ),
  };
}

/** The mail that reports repeated failures to an address. */
export function noticeMail(email: string, tries: number): Mail {
  return {
    to: email,
    subject: "Wrong sign-in codes for your address",
    text: lines(
      `${tries} wrong sign-in codes were entered for this address in the last 24 hours.`,
      "",
      "If that was not you, somebody may be trying to sign in as you. You need not do anything: after",
      `${DAY_TRIES} wrong codes in a day, sign-in mails carry a long code that nobody can guess. Do not give`,
      "a code to anybody who asks you for one. This notice is sent at most once a day.",
    ),
  };
}

function lines(...text: string[]): string {
  return [...text, ""].join("\n");
}
