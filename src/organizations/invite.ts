import { hash, randomBytes } from "node:crypto";
import {
  describeMailError,
  isInDoubt,
  isRefusedForGood,
  type Mail,
  type Mailer,
} from "../accounts/mail/smtp.ts";
import type { CodeHashes } from "../accounts/sign_in/codes.ts";
import { addSeconds, type Clock } from "../clock.ts";
import type { Database, Transaction } from "../db/database.ts";
import type { OrganizationInvitationRow } from "../db/tables.ts";
import { ApiError } from "../errors.ts";
import { newId } from "../ids.ts";
import type { Logger } from "../log.ts";
import type { MemberRole, SessionCaller } from "../route.ts";
import { listMembers, lockMembers, MAX_MEMBERS } from "./members.ts";
import type { OrganizationRates } from "./rates.ts";

/** Seconds for which an invitation can be accepted. */
const INVITATION_SECONDS = 7 * 24 * 60 * 60;

/** Dependencies of the invitation operations. */
export type InviteDeps = {
  db: Database;
  clock: Clock;
  mailer: Pick<Mailer, "send">;
  hashes: Pick<CodeHashes, "address">;
  organizationRates: Pick<OrganizationRates, "takeInvitation" | "giveBackInvitation">;
  baseUrl: string;
  acceptUrl: string;
  log: Logger;
};

type NewMember = { email: string; role: MemberRole };

/** Returns the SHA-256 hash of an invitation's token. The token has 256 bits and exists only in the email. */
export function hashInvitation(token: string): Buffer {
  return hash("sha256", token, "buffer");
}

/**
 * Invites an address to an organization by email, whether or not the address has an account. An earlier
 * invitation of the address becomes invalid when the mail server accepts the new message.
 *
 * Throws `already_member`, `member_limit`, `rate_limited`, `forbidden` if the caller is no longer an owner,
 * and `unavailable` if the message was not sent. An unsent message does not count against the rate limits,
 * unless the mail server refused this message.
 */
export async function invite(
  deps: InviteDeps,
  { accountId, person }: SessionCaller,
  { email, role }: NewMember,
  ip: string,
): Promise<OrganizationInvitationRow> {
  const { db, clock, hashes, organizationRates, baseUrl, acceptUrl } = deps;
  await db.transaction((tx) => checkNewMember(tx, accountId, person.accountId, email, clock.now()));
  const counted = { organizationId: accountId, ip, address: hashes.address(email) };
  await organizationRates.takeInvitation(counted);
  const token = randomBytes(32).toString("hex");
  const organization = await db("accounts").where({ account_id: accountId }).first("organization_name");
  const organizationName = organization?.organization_name ?? "";
  const text = { to: email, by: person.email, organizationName, role, token, baseUrl, acceptUrl };
  const mailed = await sendMail(deps, invitationMail(text));
  if (mailed === "no") await organizationRates.giveBackInvitation(counted);
  if (mailed === "no" || mailed === "refused") throw notSent();
  const row = await db.transaction(async (tx) => {
    const now = clock.now();
    await checkNewMember(tx, accountId, person.accountId, email, now);
    return storeInvitation(tx, {
      invitation_id: newId(),
      organization_id: accountId,
      email,
      role,
      token_hash: hashInvitation(token),
      invited_by: person.accountId,
      created_at: now,
      expires_at: addSeconds(now, INVITATION_SECONDS),
    });
  });
  if (mailed === "perhaps") throw notSent();
  return row;
}

/** Locks the organization's members, and checks that this owner may invite the address. */
async function checkNewMember(
  tx: Transaction,
  organizationId: string,
  inviterId: string,
  email: string,
  now: Date,
): Promise<void> {
  await lockMembers(tx, organizationId);
  const members = await listMembers(tx, organizationId);
  const isOwner = members.some(({ account_id, role }) => account_id === inviterId && role === "owner");
  if (!isOwner) throw new ApiError("forbidden");
  if (members.some((member) => member.email === email)) throw new ApiError("already_member");
  const open = await tx("organization_invitations")
    .where({ organization_id: organizationId })
    .where("expires_at", ">", now)
    .whereNot({ email })
    .select("invitation_id");
  if (members.length + open.length >= MAX_MEMBERS) throw new ApiError("member_limit");
}

async function storeInvitation(
  tx: Transaction,
  row: OrganizationInvitationRow,
): Promise<OrganizationInvitationRow> {
  await tx("organization_invitations").insert(row).onConflict(["organization_id", "email"]).merge();
  return row;
}

async function sendMail({ mailer, log }: InviteDeps, mail: Parameters<Mailer["send"]>[0]) {
  try {
    await mailer.send(mail);
    return "yes";
  } catch (error) {
    log.warn(describeMailError(error), "an invitation could not be mailed");
    if (isInDoubt(error)) return "perhaps";
    return isRefusedForGood(error) ? "refused" : "no";
  }
}

function notSent(): ApiError {
  return new ApiError("unavailable", "The mail could not be sent; try again later");
}

/** Deletes expired invitations, which nobody can accept. */
export async function sweepInvitations({ db, clock }: { db: Database; clock: Clock }): Promise<void> {
  await db("organization_invitations").where("expires_at", "<=", clock.now()).delete();
}

type InvitationText = {
  to: string;
  by: string;
  organizationName: string;
  role: MemberRole;
  token: string;
  baseUrl: string;
  acceptUrl: string;
};

/**
 * Mail programs turn dots, colons, slashes and similar characters of many scripts into links, but not those
 * at the end of a word.
 */
const PLAIN = /^(?:[\p{L}\p{M}\p{N}\p{Zs}\p{Sc}\p{So}&'‘’,()+!?"“”„«»;#*%=_·・‐–—-]|[.:/](?=\s|$))*$/u;
const LONGEST_NAME = 80;

/**
 * Returns the invitation email. An untrusted person chooses the organization's name and the recipient, so the
 * email omits a name that could contain a link.
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
      "See the details and accept the invitation at this link. First, sign in with this address. At the first",
      "sign-in, you also get an account of your own.",
      "",
      `${acceptUrl}#code=${token}`,
      "",
      `Or enter this code at ${acceptUrl}:`,
      "",
      token,
      "",
      "It can be used once, within 7 days, and only by the account of this address. Until then nothing",
      "happens. If you do not know who invites you, you need not do anything.",
      "",
    ].join("\n"),
  };
}

/** Returns whether a name contains no link, even for a program that confuses similar characters. */
function isPlain(name: string): boolean {
  const read = name.normalize("NFKC");
  return name.length <= LONGEST_NAME && PLAIN.test(read) && !/www/i.test(read);
}
