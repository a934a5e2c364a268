import { isIP } from "node:net";
import MailComposer from "nodemailer/lib/mail-composer";
import SMTPTransport from "nodemailer/lib/smtp-transport";
import type { Clock } from "../../clock.ts";
import type { ApiConfig } from "../../config.ts";
import type { Logger } from "../../log.ts";
import { greet, handOver, type Mail, type Mailer, type MailGreeting } from "./smtp.ts";

/** Milliseconds for each response of the mail server, and for sending a whole message. */
const STEP_MS = 10_000;
const TOTAL_MS = 30_000;

type MailConfig = Pick<ApiConfig, "SMTP_URL" | "MAIL_FROM" | "BASE_URL">;

/**
 * Creates the mailer that the settings select: with `SMTP_URL` that server, otherwise a mailbox in memory,
 * which is also returned. The settings allow the mailbox in development only.
 */
export function createMailer(
  { SMTP_URL, ...config }: MailConfig,
  { log, clock, totalMs = TOTAL_MS }: { log: Logger; clock: Clock; totalMs?: number },
): { mailer: Mailer; mailbox?: Mailbox } {
  if (SMTP_URL === undefined) {
    const mailbox = createMailbox({ log, clock });
    return { mailer: mailbox, mailbox };
  }
  return { mailer: createSmtpMailer({ ...config, SMTP_URL }, totalMs) };
}

/** A mail server, and the service's URL, whose host is the name with which to greet the server. */
type ServerConfig = { SMTP_URL: string; BASE_URL: string };

/** Connects to the mail server, greets it and logs in like the mailer, and sends nothing. */
export async function checkMailServer(config: ServerConfig, totalMs: number): Promise<MailGreeting> {
  return greet(serverOf(config), totalMs);
}

function serverOf({ SMTP_URL: url, BASE_URL }: ServerConfig): SMTPTransport {
  const name = greetingOf(BASE_URL);
  return new SMTPTransport({
    url,
    ...(name !== undefined && { name }),
    connectionTimeout: STEP_MS,
    dnsTimeout: STEP_MS,
    greetingTimeout: STEP_MS,
    socketTimeout: STEP_MS,
  });
}

function createSmtpMailer(config: MailConfig & ServerConfig, totalMs: number): Mailer {
  const { MAIL_FROM: from } = config;
  const server = serverOf(config);
  return {
    async send({ id, to, headers: more, ...content }) {
      const messageId = id === undefined ? {} : { messageId: `<${id}@${domainOf(from)}>` };
      const headers = { "Auto-Submitted": "auto-generated", ...more };
      const mail = { from, to: { name: "", address: to }, ...content, headers, ...messageId };
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

/**
 * Returns the name with which the mailer greets a mail server: the service's host. A pod's own name is not
 * public, and the library would send `[127.0.0.1]` for it, which relays refuse. An address is not a name.
 */
export function greetingOf(baseUrl: string): string | undefined {
  const { hostname } = new URL(baseUrl);
  return isIP(hostname.replace(/^\[|\]$/g, "")) === 0 ? hostname : undefined;
}

function domainOf(from: string): string {
  return /@([A-Za-z0-9.-]+)>?\s*$/.exec(from)?.[1] ?? "localhost";
}

/** A message in the development mailbox. */
export type DeliveredMail = Mail & { sentAt: Date };

/**
 * The development mailbox: stores and shows messages instead of sending them. Never use it for codes of real
 * users.
 */
export type Mailbox = Mailer & {
  /** Returns the latest 100 messages, newest first. */
  list(): DeliveredMail[];
};

const KEPT_MAILS = 100;

/** Creates a mailbox in memory. It also logs the first line of each message. */
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
