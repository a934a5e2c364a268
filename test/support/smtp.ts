import type { AddressInfo } from "node:net";
import { pino } from "pino";
import { SMTPServer, type SMTPServerSession } from "smtp-server";
import { createMailer } from "../../src/accounts/mail/mail.ts";
import type { Mailer } from "../../src/accounts/mail/smtp.ts";
import { steeredClock } from "./clock.ts";

/** A received email: its envelope and its raw text. */
export type ReceivedMail = {
  /** The name with which the client greeted the server. */
  greeting: string;
  from: string;
  to: string[];
  raw: string;
  smtpUtf8: boolean;
};

/**
 * `reject` refuses the recipient and quotes the address. `refuse` refuses the content. `hang up` and `stall`
 * accept the message, but then close the connection or delay the response.
 */
type Behavior = "take" | "reject" | "refuse" | "hang up" | "stall";

export type SmtpReceiver = {
  url: string;
  mails: ReceivedMail[];
  behave(how: Behavior): void;
  stop(): Promise<void>;
};

/**
 * Starts an SMTP server that accepts non-ASCII addresses unless `ascii` is set. With `password`, it requires
 * STARTTLS and a login as `deputize`. Otherwise it has neither TLS nor login.
 */
export async function startSmtp({
  ascii = false,
  password,
}: {
  ascii?: boolean;
  password?: string;
} = {}): Promise<SmtpReceiver> {
  const mails: ReceivedMail[] = [];
  let behavior: Behavior = "take";
  const server = new SMTPServer({
    authOptional: password === undefined,
    hideSMTPUTF8: ascii,
    disabledCommands: password === undefined ? ["STARTTLS"] : [],
    logger: false,
    onAuth: ({ username, password: given }, _session, done) =>
      done(username === "deputize" && given === password ? null : new Error("no such login"), {
        user: username,
      }),
    onRcptTo: ({ address }, _session, done) =>
      done(
        behavior === "reject"
          ? Object.assign(new Error(`<${address}>: no such mailbox`), { responseCode: 550 })
          : null,
      ),
    onData(stream, session, done) {
      const chunks: Buffer[] = [];
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("end", () => {
        if (behavior === "refuse") {
          done(Object.assign(new Error("try again later"), { responseCode: 451 }));
          return;
        }
        mails.push(received(session, Buffer.concat(chunks)));
        if (behavior === "hang up") {
          for (const connection of server.connections) connection.close();
        } else if (behavior === "take") done();
      });
    },
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const host = `127.0.0.1:${(server.server.address() as AddressInfo).port}`;
  return {
    url:
      password === undefined
        ? `smtp://${host}`
        : `smtp://deputize:${password}@${host}?requireTLS=true&tls.rejectUnauthorized=false`,
    mails,
    behave(how) {
      behavior = how;
    },
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

/** Returns a mailer's settings for a mail server. */
export const mailSettings = (url: string) => ({
  SMTP_URL: url,
  MAIL_FROM: "Deputize <no-reply@example.com>",
  BASE_URL: "https://deputize.example.com/agents",
});

export function mailerTo({ url }: Pick<SmtpReceiver, "url">): Mailer {
  const settings = mailSettings(url);
  return createMailer(settings, { log: pino({ level: "silent" }), clock: steeredClock() }).mailer;
}

function received({ envelope, hostNameAppearsAs }: SMTPServerSession, content: Buffer): ReceivedMail {
  const { mailFrom, rcptTo, smtpUtf8 = false } = envelope;
  return {
    greeting: String(hostNameAppearsAs),
    from: mailFrom === false ? "" : mailFrom.address,
    to: rcptTo.map(({ address }) => address),
    raw: content.toString(),
    smtpUtf8,
  };
}
