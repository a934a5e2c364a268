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
};

/** What mail programs make a link of, or take for an address. */
const LINKED = /[./:@\\]\S|www/i;
const LONGEST_NAME = 80;

/**
 * The mail of an invitation. Strangers choose an organization's name and whom the mail goes to, so a name
 * that could carry a link is left out.
 */
export function invitationMail({ to, by, organizationName, role, token, baseUrl }: InvitationText): Mail {
  const isPlain = organizationName.length <= LONGEST_NAME && !LINKED.test(organizationName);
  const whose = isPlain ? `the organization “${organizationName}”` : "an organization";
  return {
    to,
    subject: "Invitation to an organization",
    text: [
      `${by} invites you to act for ${whose} at ${baseUrl}, as ${role}.`,
      "",
      "To accept, sign in there with this address and give this code:",
      "",
      token,
      "",
      "It can be used once, within 7 days, by the account of this address and no other. Until then nothing",
      "happens. If you do not know who invites you, you need not do anything.",
      "",
    ].join("\n"),
  };
}
