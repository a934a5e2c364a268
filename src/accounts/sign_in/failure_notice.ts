import type { Database } from "../../db/database.ts";
import type { Logger } from "../../log.ts";
import { describeMailError, isInDoubt } from "../mail/mail_error.ts";
import type { Mailer } from "../mail/mailer.ts";
import { CODE_TRIES, type CodeHashes } from "./codes.ts";
import { forgetMail, planNotice } from "./sign_in_mails.ts";
import { noticeMail } from "./sign_in_texts.ts";

/** What a notice is sent with. */
export type FailureNotice = { db: Database; mailer: Pick<Mailer, "send">; hashes: CodeHashes; log: Logger };

/**
 * Sends an address a mail when it had five wrong codes or more in 24 hours; once in that time, whether or not
 * it has an account. Never fails: a notice that could not be mailed is due again with the next wrong code.
 */
export async function tellOfFailures(
  { db, mailer, hashes, log }: FailureNotice,
  email: string,
  now: Date,
): Promise<void> {
  const planned = await planNotice(db, hashes.address(email), { from: CODE_TRIES, now });
  if (planned === undefined) return;
  log.warn({ tries: planned.tries }, "an address has had repeated wrong sign-in codes");
  try {
    await mailer.send(noticeMail(email, planned.tries));
  } catch (error) {
    log.warn(describeMailError(error), "a notice of wrong sign-in codes could not be mailed");
    if (!isInDoubt(error)) await forgetMail(db, planned.mailId);
  }
}
