import { hash, randomBytes } from "node:crypto";
import { z } from "zod";
import { addSeconds, type Clock } from "../../clock.ts";
import type { Database, Transaction } from "../../db/database.ts";
import { sqlState, UNIQUE_VIOLATION } from "../../db/errors.ts";
import type { AccountCodeRow } from "../../db/tables.ts";
import { ApiError } from "../../errors.ts";
import type { Logger } from "../../log.ts";
import type { ActionLimits } from "../../rates/action_limits.ts";
import type { ClientRates } from "../../rates/client_rates.ts";
import { type Route, route } from "../../route.ts";
import { emailAddress } from "../email.ts";
import { isReserved } from "../former_addresses.ts";
import { recordCreditedAddress } from "../ledger/amounts.ts";
import { describeMailError, type Mail, type Mailer } from "../mail/smtp.ts";
import { lockFamilies } from "../sessions/sessions.ts";
import { type CodeHashes, plainCode } from "../sign_in/codes.ts";
import { ACCOUNT_CODE_FORM, spendCodes, storeCodes, tryCodes } from "./account_codes.ts";
import {
  type AddressChange,
  changedMail,
  newAddressMail,
  presentAddressMail,
  UNDO_DAYS,
  undoneMail,
} from "./address_mails.ts";

/** Dependencies of the operations that change an account's address. */
export type AddressDeps = {
  db: Database;
  clock: Clock;
  mailer: Pick<Mailer, "send">;
  hashes: CodeHashes;
  rates: Pick<ClientRates, "takeSend">;
  actionLimits: ActionLimits;
  baseUrl: string;
  log: Logger;
};

const path = "/v1/auth/address";
const DAY_SECONDS = 24 * 60 * 60;

const sent = z.object({ status: z.literal("codes_sent") });
const changed = z.object({ email: z.string() });

/** The schema of a code that confirms a change of an account. */
export const accountCode = z
  .string()
  .max(128)
  .transform(plainCode)
  .refine((code) => ACCOUNT_CODE_FORM.test(code), "must be 8 digits");

/** Returns the operations that change the address with which a person signs in. */
export function addressRoutes(deps: AddressDeps): Route[] {
  return [sendRoute(deps), changeRoute(deps), undoRoute(deps)];
}

/** The answer does not depend on whether the new address has an account. */
function sendRoute(deps: AddressDeps): Route {
  const { db, clock, rates, hashes, actionLimits } = deps;
  return route({
    id: "send_address_codes",
    method: "POST",
    path: `${path}/codes`,
    summary: "Send the codes that change the person's address: one to each of the two addresses",
    access: "session",
    roles: "person",
    idempotent: true,
    body: z.object({ email: emailAddress }),
    answer: { status: 200, schema: sent, description: "The codes are on their way" },
    errors: ["rate_limited", "action_limited"],
    async handle({ caller, body, ip }) {
      const { accountId, email } = caller.person;
      const change = { email, newEmail: body.email };
      const to = hashes.address(body.email).toString("hex");
      await actionLimits.within("confirm_account", [accountId], () =>
        actionLimits.within("mail_new_address", [to], async () => {
          await rates.takeSend(ip);
          const { code, newCode } = await storeCodes({ db, hashes }, { accountId, ...change }, clock.now());
          // A refused call does not count. So the mail to a stranger goes last.
          await sendOrRefuse(deps, presentAddressMail(change, code));
          await sendOrRefuse(deps, newAddressMail(change, newCode));
        }),
      );
      return { body: { status: "codes_sent" as const } };
    },
  });
}

function changeRoute(deps: AddressDeps): Route {
  const { db, clock, baseUrl, hashes } = deps;
  return route({
    id: "change_address",
    method: "POST",
    path,
    summary: "Change the address with which the person signs in; ends their other sign-ins",
    access: "session",
    roles: "person",
    recorded: true,
    idempotent: true,
    body: z.object({
      address_code: accountCode.describe("The code in the mail to the present address"),
      new_address_code: accountCode.describe("The code in the mail to the new address"),
    }),
    answer: { status: 200, schema: changed, description: "The address from now on" },
    errors: ["invalid_code", "address_taken"],
    async handle({ caller, body }) {
      const codes = { code: body.address_code, newCode: body.new_address_code };
      const row = await tryCodes(deps, caller.person.accountId, codes, clock.now());
      const change = { email: row.email, newEmail: row.new_email ?? "" };
      await db.transaction((tx) => checkFree(tx, row.account_id, change.newEmail, clock.now()));
      const token = randomBytes(32).toString("hex");
      await sendOrRefuse(deps, changedMail(change, token, baseUrl));
      await refuseTaken(() =>
        db.transaction(async (tx) => {
          await changeAddress(tx, row, { token, familyId: caller.familyId }, clock.now());
          await recordCreditedAddress(tx, hashes, row.email);
        }),
      );
      return { body: { email: change.newEmail } };
    },
  });
}

/** Changes the address, reserves the former one, and ends all sign-ins of the person but this one. */
async function changeAddress(
  tx: Transaction,
  row: AccountCodeRow,
  { token, familyId }: { token: string; familyId: string },
  now: Date,
): Promise<void> {
  const { account_id, email: former, new_email } = row;
  const email = new_email ?? "";
  await spendCodes(tx, row);
  await lockFamilies(tx, account_id);
  const account = await tx("accounts").where({ account_id }).forUpdate().first("email");
  if (account?.email !== former) throw new ApiError("invalid_code");
  await checkFree(tx, account_id, email, now);
  await tx("former_addresses").where({ account_id, email }).delete();
  await tx("accounts").where({ account_id }).update({ email });
  await tx("former_addresses")
    .insert({
      email: former,
      account_id,
      token_hash: hashToken(token),
      expires_at: addSeconds(now, UNDO_DAYS * DAY_SECONDS),
    })
    .onConflict("email")
    .merge();
  await endSignIns(tx, account_id, now, familyId);
}

async function checkFree(tx: Transaction, accountId: string, email: string, now: Date): Promise<void> {
  const taken = await tx("accounts").where({ email }).first("account_id");
  const isTaken = taken !== undefined || (await isReserved(tx, email, now, accountId));
  if (isTaken) throw new ApiError("address_taken");
}

/** `POST /v1/auth/address/undo`: puts a former address back, so that its owner can undo a theft. */
function undoRoute(deps: AddressDeps): Route {
  const { db, clock, baseUrl, log, mailer } = deps;
  return route({
    id: "undo_address_change",
    method: "POST",
    path: `${path}/undo`,
    summary: "Put a former address back with the token in the mail to it; ends every sign-in",
    access: "public",
    body: z.object({ token: z.string().max(200).describe("The token in the mail's link") }),
    answer: { status: 200, schema: changed, description: "The address from now on" },
    errors: ["invalid_code", "address_taken"],
    async handle({ body }) {
      const change = await refuseTaken(() =>
        db.transaction((tx) => putBack(tx, hashToken(body.token.trim()), clock.now())),
      );
      try {
        await mailer.send(undoneMail(change, baseUrl));
      } catch (error) {
        log.warn(describeMailError(error), "a mail about an address that was put back could not be sent");
      }
      return { body: { email: change.email } };
    },
  });
}

/**
 * Puts a former address back and returns the change. Forgets later former addresses, so that a thief cannot
 * put theirs back. Earlier former addresses can still return.
 */
async function putBack(tx: Transaction, tokenHash: Buffer, now: Date): Promise<AddressChange> {
  const [former] = await tx("former_addresses")
    .where({ token_hash: tokenHash })
    .where("expires_at", ">", now)
    .delete()
    .returning("*");
  if (former === undefined) throw new ApiError("invalid_code");
  const { account_id, email } = former;
  await lockFamilies(tx, account_id);
  const account = await tx("accounts").where({ account_id }).forUpdate().first("email");
  await tx("accounts").where({ account_id }).update({ email });
  await tx("former_addresses").where({ account_id }).where("expires_at", ">=", former.expires_at).delete();
  await tx("account_codes").where({ account_id }).delete();
  await endSignIns(tx, account_id, now);
  return { email, newEmail: account?.email ?? "" };
}

async function endSignIns(tx: Transaction, accountId: string, now: Date, except?: string): Promise<void> {
  await tx("session_families")
    .where({ account_id: accountId })
    .modify((families) => (except === undefined ? families : families.whereNot("family_id", except)))
    .whereNull("ended_at")
    .update({ ended_at: now, end_reason: "logout" });
}

/** Throws `address_taken` if another account takes the address between the check and the commit. */
async function refuseTaken<T>(change: () => Promise<T>): Promise<T> {
  try {
    return await change();
  } catch (error) {
    throw sqlState(error) === UNIQUE_VIOLATION ? new ApiError("address_taken") : error;
  }
}

/** Sends a mail, or throws `unavailable`. */
export async function sendOrRefuse(
  { mailer, log }: { mailer: Pick<Mailer, "send">; log: Logger },
  mail: Mail,
): Promise<void> {
  try {
    await mailer.send(mail);
  } catch (error) {
    log.warn(describeMailError(error), "a mail about an account could not be sent");
    throw new ApiError("unavailable", "The mail could not be sent; try again later");
  }
}

function hashToken(token: string): Buffer {
  return hash("sha256", token, "buffer");
}
