import { createTransport } from "nodemailer";
import type { Clock } from "../clock.ts";
import type { ApiConfig } from "../config.ts";
import type { Logger } from "../log.ts";
import { createMailbox, type Mailbox } from "./mailbox.ts";
import type { Mailer } from "./mailer.ts";

const TIMEOUT_MS = 10_000;

type MailConfig = Pick<ApiConfig, "SMTP_URL" | "MAIL_FROM">;

/**
 * A mailer for the settings: the SMTP server of `SMTP_URL`, reached within 10 seconds; without one, which the settings
 * allow in development only, a mailbox in memory, which is returned too.
 */
export function createMailer(
  { SMTP_URL, MAIL_FROM }: MailConfig,
  { log, clock }: { log: Logger; clock: Clock },
): { mailer: Mailer; mailbox?: Mailbox } {
  if (SMTP_URL === undefined) {
    const mailbox = createMailbox({ log, clock });
    return { mailer: mailbox, mailbox };
  }
  return { mailer: createSmtpMailer(SMTP_URL, MAIL_FROM) };
}

function createSmtpMailer(url: string, from: string): Mailer {
  const transport = createTransport(
    {
      url,
      connectionTimeout: TIMEOUT_MS,
      dnsTimeout: TIMEOUT_MS,
      greetingTimeout: TIMEOUT_MS,
      socketTimeout: TIMEOUT_MS,
    },
    { from, disableFileAccess: true, disableUrlAccess: true },
  );
  return {
    async send({ id, to, subject, text }) {
      const messageId = id === undefined ? {} : { messageId: `<${id}@${domainOf(from)}>` };
      const message = { to: { name: "", address: to }, subject, text, ...messageId };
      const { ehlo = [] } = await transport.sendMail(message);
      const needsUtf8 = /[^\0-\x7f]/.test(to);
      // The library sends the address anyway, and a server that does not know its form may deliver it elsewhere.
      if (needsUtf8 && !ehlo.some((line) => /^SMTPUTF8\b/i.test(line))) {
        throw Object.assign(new Error("The mail server has no SMTPUTF8"), { code: "ENOUTF8" });
      }
    },
    close: () => transport.close(),
  };
}

/** The domain of the address that mail comes from. */
function domainOf(from: string): string {
  return /@([A-Za-z0-9.-]+)>?\s*$/.exec(from)?.[1] ?? "localhost";
}
