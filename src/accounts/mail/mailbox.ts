import type { Clock } from "../../clock.ts";
import type { Logger } from "../../log.ts";
import type { Mail, Mailer } from "./mailer.ts";

/** A mail in the development mailbox. */
export type DeliveredMail = Mail & { sentAt: Date };

/** The development mailbox: takes mail and shows it instead of sending it. Never for real people's codes. */
export type Mailbox = Mailer & {
  /** Mails, newest first; of more than 100 the oldest are gone. */
  list(): DeliveredMail[];
};

const KEPT_MAILS = 100;

/** A mailbox in memory. Each mail's first line is in the log too. */
export function createMailbox({ log, clock }: { log: Logger; clock: Clock }): Mailbox {
  let mails: DeliveredMail[] = [];
  return {
    async send(mail) {
      mails = [{ ...mail, sentAt: clock.now() }, ...mails].slice(0, KEPT_MAILS);
      log.info(`mail for ${mail.to}: ${mail.text.split("\n", 1)[0]}`);
    },
    list: () => mails,
    close: () => {},
  };
}
