import type { Mail } from "../../accounts/mail/mailer.ts";
import type { MemberRole } from "../../route.ts";

/** What the mail of an invitation says. */
export type InvitationText = {
  to: string;
  /** E-mail of the owner who invites. */
  by: string;
  organizationName: string;
  role: MemberRole;
  token: string;
  baseUrl: string;
  /** The page at which it is accepted. */
  acceptUrl: string;
};

/**
 * What a name in a mail may have. Mail programs make links of dots, colons, slashes and signs like them in
 * many scripts, but not of those at the end of a word.
 */
const PLAIN = /^(?:[\p{L}\p{M}\p{N}\p{Zs}\p{Sc}\p{So}&'‘’,()+!?"“”„«»;#*%=_·・‐–—-]|[.:/](?=\s|$))*$/u;
const LONGEST_NAME = 80;

/**
 * The mail of an invitation. Strangers choose an organization's name and whom the mail goes to, so a name
 * that could carry a link is left out.
 */
export function invitationMail(text: InvitationText): Mail {
  const { to, by, organizationName, role, token, baseUrl, acceptUrl } = text;
  const whose = isPlain(organizationName) ? `the organization “${organizationName}”` : "an organization";
  return {
    to,
    subject: "Invitation to an organization",
    text: [
      `${by} invites you to act for ${whose} at ${baseUrl}, as ${role}.`,
      "",
      "See what that is, and accept it, at this link. You sign in with this address first; the first time, that",
      "opens an account of your own.",
      "",
      `${acceptUrl}#code=${token}`,
      "",
      `Or give this code at ${acceptUrl}:`,
      "",
      token,
      "",
      "It can be used once, within 7 days, by the account of this address and no other. Until then nothing",
      "happens. If you do not know who invites you, you need not do anything.",
      "",
    ].join("\n"),
  };
}

/** Whether a name carries no link, also to a program that takes one sign for another. */
function isPlain(name: string): boolean {
  const read = name.normalize("NFKC");
  return name.length <= LONGEST_NAME && PLAIN.test(read) && !/www/i.test(read);
}
