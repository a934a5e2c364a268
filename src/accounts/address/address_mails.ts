import type { Mail } from "../mail/smtp.ts";
import { renderMail } from "../mailings/render.ts";
import { type MailContent, unlinked } from "../mailings/texts.ts";
import { ACCOUNT_CODE_SECONDS } from "./account_codes.ts";

/** Days for which a former address can be put back. */
export const UNDO_DAYS = 7;

/** The path of the page on which the holder of a former address puts it back. */
export const UNDO_ADDRESS = "/console/address/undo";

const VALID = `It can be used once, within ${ACCOUNT_CODE_SECONDS / 60} minutes. Nobody who works for us will ask you for it.`;

/** A change of an account's address. */
export type AddressChange = { email: string; newEmail: string };

const END_SIGN_INS =
  "If that is not you, sign in and end the sign-ins that you do not recognize, on your account page.";

/** Returns the mail with the code for the account's present address. */
export function presentAddressMail({ email, newEmail }: AddressChange, code: string): Mail {
  const wish = `Somebody who is signed in to your account wants to change its address to ${unlinked(newEmail)}.`;
  return codeMail(email, "Code to change your e-mail address", { code, wish, otherwise: END_SIGN_INS });
}

/** Returns the mail with the code for the new address, whether or not the address has an account. */
export function newAddressMail({ email, newEmail }: AddressChange, code: string): Mail {
  const wish = `The person with the address ${unlinked(email)} wants to use this address for their account.`;
  const otherwise = "If that is not you, you do not need to do anything.";
  return codeMail(newEmail, "Code to confirm your e-mail address", { code, wish, otherwise });
}

/** Returns the mail with the code that deletes an account. */
export function deletionMail(email: string, code: string): Mail {
  const wish = "Somebody who is signed in to your account wants to delete it, permanently.";
  return codeMail(email, "Code to delete your account", { code, wish, otherwise: END_SIGN_INS });
}

type CodeTexts = { code: string; wish: string; otherwise: string };

function codeMail(to: string, subject: string, { code, wish, otherwise }: CodeTexts): Mail {
  const text = [`Your code is ${code}`, "", wish, `If that is you, enter this code. ${VALID}`, otherwise, ""];
  return { to, subject, text: text.join("\n") };
}

/** Returns the mail to the former address, with the link that puts the address back. */
export function changedMail({ email, newEmail }: AddressChange, token: string, baseUrl: string): Mail {
  const content: MailContent = {
    subject: "The e-mail address of your account has changed",
    heading: "The e-mail address of your account has changed",
    paragraphs: [
      `Your account now has the address ${unlinked(newEmail)}. Sign in with that address from now on.`,
      `If you did not do this, put the former address back. This ends every sign-in of the account. The link works for ${UNDO_DAYS} days.`,
    ],
    items: [],
    button: { label: "Put the former address back", path: `${UNDO_ADDRESS}#code=${token}` },
    after: `For ${UNDO_DAYS} days, nobody else can open an account with the former address.`,
    reason: "You get this mail because your account had this address.",
  };
  return { to: email, ...renderMail(content, { baseUrl }) };
}

/** Returns the mail to the address that an account no longer has, because its former address is back. */
export function undoneMail({ email, newEmail }: AddressChange, baseUrl: string): Mail {
  const content: MailContent = {
    subject: "An account no longer has this e-mail address",
    heading: "An account no longer has this e-mail address",
    paragraphs: [
      `The account has its former address ${unlinked(email)} again. The link in the mail to that address was used.`,
    ],
    items: [],
    button: { label: "Sign in", path: "/console" },
    after: "If this is wrong, contact the people who run this service.",
    reason: "You get this mail because the account had this address.",
  };
  return { to: newEmail, ...renderMail(content, { baseUrl }) };
}
