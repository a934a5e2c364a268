import { randomBytes } from "node:crypto";
import { addSeconds } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import { newId } from "../../ids.ts";
import type { CookieChange } from "../../route.ts";
import {
  type AddressHistory,
  CODE_SECONDS,
  CODE_TRIES,
  type CodeBounds,
  type CodeHashes,
  LINK_SECONDS,
  newCode,
  newLinkCode,
  nextMail,
  OWN_CODES,
} from "./codes.ts";

const MINUTE = 60;
const DAY = 24 * 60 * MINUTE;
/** Seconds for which wrong tries count after their code has expired or was replaced. */
export const HISTORY_SECONDS = 30 * DAY;
/** Seconds over which a client's emails with six-digit codes are counted. */
const CLIENT_SECONDS = 15 * MINUTE;
/** Seconds after an email with a link during which no other email is sent. */
const LINK_PAUSE_SECONDS = 30 * MINUTE;
/** Seconds for which a planned link counts as sent. Sending takes less, so an older plan was never sent. */
const MAILING_SECONDS = MINUTE;

/** A browser, identified by its cookie. `anonymous`: it sent no cookie and received a new one. */
type CodeClient = { cookie: string; anonymous: boolean };

/** An email that counts against the limits immediately. Its code becomes valid with {@link noteMailed}. */
export type PlannedMail = { mailId: string; kind: "digits" | "link"; code: string };

/**
 * Plans the next email with a code to an address. Returns `undefined` if a link is waiting or being sent.
 * Concurrent calls for one address run one after the other, so each call sees the earlier plans.
 */
export async function planMail(
  db: Database,
  {
    email,
    client,
    hashes,
    bounds,
  }: { email: string; client: CodeClient; hashes: CodeHashes; bounds: CodeBounds },
  now: Date,
): Promise<PlannedMail | undefined> {
  const [addressHash, clientHash] = [hashes.address(email), hashes.client(client.cookie)];
  return db.transaction(async (tx) => {
    await lockAddress(tx, addressHash);
    const history = await readHistory(tx, { addressHash, clientHash, anonymous: client.anonymous }, now);
    const kind = nextMail(history, { anonymous: client.anonymous, bounds });
    if (kind === "none") return undefined;
    const code = kind === "digits" ? newCode() : newLinkCode();
    const mailId = newId();
    await tx("sign_in_mails").insert({
      mail_id: mailId,
      email_hash: addressHash,
      kind,
      client_hash: clientHash,
      anonymous: client.anonymous,
      shared: client.anonymous && kind === "digits",
      code_hash: hashes.code(email, code),
      created_at: now,
      expires_at: addSeconds(now, kind === "digits" ? CODE_SECONDS : LINK_SECONDS),
    });
    return { mailId, kind, code };
  });
}

/**
 * Makes a code valid. A six-digit code leaves the browser's previous code valid and ends older ones. If the
 * browser had no cookie, the code also replaces the code that is valid without a cookie. A link code replaces
 * nothing. Returns whether an earlier code could still be used.
 */
export async function noteMailed(db: Database, mailId: string, now: Date): Promise<{ resent: boolean }> {
  return db.transaction(async (tx) => {
    const [mail] = await tx("sign_in_mails")
      .where({ mail_id: mailId })
      .update({ mailed_at: now })
      .returning(["email_hash", "client_hash", "anonymous", "kind"]);
    if (mail === undefined || mail.kind !== "digits") return { resent: false };
    const good = () =>
      tx("sign_in_mails")
        .where({ email_hash: mail.email_hash, kind: "digits" })
        .whereNot("mail_id", mailId)
        .whereNotNull("mailed_at")
        .whereNull("ended_at")
        .where("expires_at", ">=", now);
    const own = await good()
      .where("client_hash", mail.client_hash)
      .orderBy([
        { column: "mailed_at", order: "desc" },
        { column: "mail_id", order: "desc" },
      ])
      .forUpdate()
      .select("mail_id", "own_tries");
    const old = own.slice(OWN_CODES - 1).map(({ mail_id }) => mail_id);
    await tx("sign_in_mails").whereIn("mail_id", old).update({ ended_at: now });
    const shared = mail.anonymous
      ? await good().where("shared", true).update({ shared: false }).returning("shared_tries")
      : [];
    const resent =
      own.some(({ own_tries }) => own_tries < CODE_TRIES) ||
      shared.some(({ shared_tries }) => shared_tries < CODE_TRIES);
    return { resent };
  });
}

/** Deletes an email that no server accepted. It no longer counts, and earlier codes remain valid. */
export async function forgetMail(db: Database, mailId: string): Promise<void> {
  await db("sign_in_mails").where({ mail_id: mailId }).delete();
}

/**
 * Plans the email that reports wrong codes to their address: after `from` or more tries in 24 hours, and at
 * most once in that time. Returns the email's id and the number of tries. A wrong code that was compared with
 * two codes counts as two tries.
 */
export async function planNotice(
  db: Database,
  addressHash: Buffer,
  { from, now }: { from: number; now: Date },
): Promise<{ mailId: string; tries: number } | undefined> {
  return db.transaction(async (tx) => {
    await lockAddress(tx, addressHash);
    const { dayTries: tries } = await readHistory(
      tx,
      { addressHash, clientHash: null, anonymous: false },
      now,
    );
    const before = await tx("sign_in_mails")
      .where({ email_hash: addressHash, kind: "notice" })
      .where("expires_at", ">", now)
      .first("mail_id");
    if (tries < from || before !== undefined) return undefined;
    const mailId = newId();
    const notice = { mail_id: mailId, email_hash: addressHash, kind: "notice" as const };
    await tx("sign_in_mails").insert({ ...notice, created_at: now, expires_at: addSeconds(now, DAY) });
    return { mailId, tries };
  });
}

/** Counts unexpired emails that no server has accepted, and returns when a server last accepted one. */
export async function readMailsUnderWay(
  db: Database,
  now: Date,
): Promise<{ underWay: number; lastMailedAt: Date | null }> {
  const { rows } = await db.raw(
    `select count(*) filter (where mailed_at is null) as "underWay",
            max(mailed_at) as "lastMailedAt"
     from sign_in_mails where expires_at > :now and kind <> 'notice'`,
    { now },
  );
  return rows[0];
}

async function lockAddress(tx: Transaction, addressHash: Buffer): Promise<void> {
  await tx.raw("select pg_advisory_xact_lock(hashtextextended(encode(?, 'hex'), 0))", [addressHash]);
}

type Asked = { addressHash: Buffer; clientHash: Buffer | null; anonymous: boolean };

async function readHistory(tx: Transaction, asked: Asked, now: Date): Promise<AddressHistory> {
  const { rows } = await tx.raw<{ rows: [AddressHistory] }>(
    `select
       count(*) filter (where counts and created_at > :clientStart
         and case when :anonymous then anonymous else not anonymous and client_hash = :clientHash end)::int as "clientMails",
       count(*) filter (where counts and created_at > :dayStart)::int as "dayMails",
       coalesce(sum(tries) filter (where expires_at > :dayStart), 0)::int as "dayTries",
       coalesce(sum(tries), 0)::int as "monthTries",
       coalesce(sum(:maxTries - own_tries + case when shared then :maxTries - shared_tries else 0 end)
         filter (where kind = 'digits' and ended_at is null and expires_at >= :now), 0)::int as "openTries",
       coalesce(bool_or(kind = 'link' and ended_at is null
         and case when mailed_at is null then created_at > :mailingStart else created_at > :linkStart end),
         false) as "linkWaits"
     from (select *, own_tries + shared_tries as tries, kind = 'digits' and not spent as counts from sign_in_mails
       where email_hash = :addressHash and expires_at > :monthStart) as mails`,
    {
      ...asked,
      now,
      maxTries: CODE_TRIES,
      clientStart: addSeconds(now, -CLIENT_SECONDS),
      dayStart: addSeconds(now, -DAY),
      monthStart: addSeconds(now, -HISTORY_SECONDS),
      linkStart: addSeconds(now, -LINK_PAUSE_SECONDS),
      mailingStart: addSeconds(now, -MAILING_SECONDS),
    },
  );
  return rows[0];
}

/** Seconds for which the sign-in cookie identifies a browser, counted from its last code. */
const SIGN_IN_SECONDS = 30 * 24 * 60 * 60;

/** Returns the browser that requests a code. It gets a new cookie if its cookie is missing or malformed. */
export function codeClient(cookie: string | undefined): CodeClient {
  const known = knownCookie(cookie);
  return known === undefined
    ? { cookie: randomBytes(32).toString("base64url"), anonymous: true }
    : { cookie: known, anonymous: false };
}

/**
 * Returns the sign-in cookie's value if it is well-formed. It proves nothing, and only separates browsers.
 */
export function knownCookie(cookie: string | undefined): string | undefined {
  return cookie !== undefined && /^[A-Za-z0-9_-]{43}$/.test(cookie) ? cookie : undefined;
}

/** Returns the change that stores the sign-in cookie in the browser. */
export function signInCookie({ cookie }: CodeClient): CookieChange {
  return { name: "sign_in", value: cookie, maxAgeSeconds: SIGN_IN_SECONDS };
}
