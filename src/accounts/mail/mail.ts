import MailComposer from "nodemailer/lib/mail-composer";
import SMTPTransport from "nodemailer/lib/smtp-transport";
import type { Clock } from "../../clock.ts";
import type { ApiConfig } from "../../config.ts";
import type { Logger } from "../../log.ts";
import { handOver, type Mail, type Mailer } from "./smtp.ts";

/** Milliseconds that the server may take for each answer, and for all of a mail. */
const STEP_MS = 10_000;
const TOTAL_MS = 30_000;

type MailConfig = Pick<ApiConfig, "SMTP_URL" | "MAIL_FROM">;

/**
 * A mailer for the settings: the SMTP server of `SMTP_URL`, which has 10 seconds for each answer and 30 for a
 * mail; without one, which the settings allow in development only, a mailbox in memory, which is returned
 * too.
 */
export function createMailer(
  { SMTP_URL, MAIL_FROM }: MailConfig,
  { log, clock, totalMs = TOTAL_MS }: { log: Logger; clock: Clock; totalMs?: number },
): { mailer: Mailer; mailbox?: Mailbox } {
  if (SMTP_URL === undefined) {
    const mailbox = createMailbox({ log, clock });
    return { mailer: mailbox, mailbox };
  }
  return { mailer: createSmtpMailer(SMTP_URL, MAIL_FROM, totalMs) };
}

function createSmtpMailer(url: string, from: string, totalMs: number): Mailer {
  const server = new SMTPTransport({
    url,
    connectionTimeout: STEP_MS,
    dnsTimeout: STEP_MS,
    greetingTimeout: STEP_MS,
    socketTimeout: STEP_MS,
  });
  return {
    async send({ id, to, subject, text }) {
      const messageId = id === undefined ? {} : { messageId: `<${id}@${domainOf(from)}>` };
      const mail = { from, to: { name: "", address: to }, subject, text, ...messageId };
      const message = new MailComposer({
        ...mail,
        disableFileAccess: true,
        disableUrlAccess: true,
      }).compile();
      await handOver(server, message, totalMs);
    },
    close: () => server.close(),
  };
}

/** The domain of the address that mail comes from. */
function domainOf(from: string): string {
  return /@([A-Za-z0-9.-]+)>?\s*$/.exec(from)?.[1] ?? "localhost";
}

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
