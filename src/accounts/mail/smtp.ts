import type { Readable } from "node:stream";
import type MimeNode from "nodemailer/lib/mime-node";
import SMTPConnection from "nodemailer/lib/smtp-connection";
import type SMTPTransport from "nodemailer/lib/smtp-transport";

/**
 * An email with a text part, and perhaps an HTML part and further headers. A message with an `id` has the
 * same Message-ID each time it is sent.
 */
export type Mail = {
  id?: string;
  to: string;
  subject: string;
  text: string;
  html?: string;
  headers?: Record<string, string>;
};

/** Sends emails. */
export type Mailer = {
  /**
   * Resolves once the server has accepted the message, and rejects otherwise. If the connection is lost
   * while the text is being sent or later, the result is unknown, and the error has `inDoubt: true`.
   */
  send(mail: Mail): Promise<void>;
  close(): void;
};

/** Returns whether the server may have accepted a message although the mailer threw this error. */
export function isInDoubt(error: unknown): boolean {
  return error instanceof Error && "inDoubt" in error && error.inDoubt === true;
}

/**
 * Returns whether a mailer's error means that the server refused this address or text permanently. Such an
 * error is not an outage, and the server would refuse the same message again.
 */
export function isRefusedForGood(error: unknown): boolean {
  const { command, responseCode } = error as { command?: unknown; responseCode?: number };
  return (command === "RCPT TO" || command === "DATA") && responseCode !== undefined && responseCode >= 500;
}

/**
 * Returns log fields for an unsent email: the library's and the server's error codes, never address or text.
 */
export function describeMailError(error: unknown): { smtp_code: unknown; smtp_response_code: unknown } {
  const { code, responseCode } = error as { code?: unknown; responseCode?: unknown };
  return { smtp_code: code, smtp_response_code: responseCode };
}

type SmtpServer = Pick<SMTPTransport, "options" | "auth">;

/**
 * Sends one message on its own connection, within `totalMs`. After a failure while the text is being sent or
 * later, the error has `inDoubt: true`, unless the server refused the message.
 *
 * For a non-ASCII address, sends nothing to a server without SMTPUTF8, which may deliver to a wrong address.
 * The library's own transport would send the message.
 */
export async function handOver(server: SmtpServer, message: MimeNode, totalMs: number): Promise<void> {
  const connection = new SMTPConnection(server.options);
  const content = message.createReadStream();
  let isBegun = false;
  content.once("resume", () => {
    isBegun = true;
  });
  const over = new AbortController();
  try {
    const work = converse(connection, server, { envelope: message.getEnvelope(), content });
    await Promise.race([work, failureOf(connection, totalMs, over.signal)]);
  } catch (error) {
    throw Object.assign(error as Error, { inDoubt: isBegun && !isRefusedMail(error) });
  } finally {
    over.abort();
    connection.close();
  }
}

/** How a mail server accepted a client that sent nothing. */
export type MailGreeting = { isEncrypted: boolean; isLoggedIn: boolean };

/** Connects, greets, starts TLS and logs in as for a message, within `totalMs`, and sends nothing. */
export async function greet(server: SmtpServer, totalMs: number): Promise<MailGreeting> {
  const connection = new SMTPConnection(server.options);
  const over = new AbortController();
  try {
    const greeted = step((done) => connection.connect(done)).then(() => logIn(connection, server));
    await Promise.race([greeted, failureOf(connection, totalMs, over.signal)]);
    return { isEncrypted: connection.secure, isLoggedIn: connection.authenticated };
  } finally {
    over.abort();
    connection.close();
  }
}

type Outgoing = { envelope: ReturnType<MimeNode["getEnvelope"]>; content: Readable };

async function converse(
  connection: SMTPConnection,
  server: SmtpServer,
  { envelope, content }: Outgoing,
): Promise<void> {
  await step((done) => connection.connect(done));
  const isAscii = /^[\0-\x7f]*$/.test([envelope.from, ...envelope.to].join());
  // Before the login, `lastServerResponse` is the last response to EHLO (after STARTTLS, the second).
  if (!isAscii && !offersUtf8(connection.lastServerResponse)) {
    throw Object.assign(new Error("The mail server does not support SMTPUTF8"), { code: "ENOUTF8" });
  }
  await logIn(connection, server);
  await step((done) => connection.send(envelope, content, done));
}

async function logIn(connection: SMTPConnection, { options, auth }: SmtpServer): Promise<void> {
  if (auth && (connection.allowsAuth || options.forceAuth)) {
    await step((done) => connection.login(auth, done));
  }
}

function step(run: (done: (error?: Error | null) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => run((error) => (error ? reject(error) : resolve())));
}

/** Rejects after `totalMs`, or when the connection fails, which not every step notices. */
function failureOf(connection: SMTPConnection, totalMs: number, over: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    connection.on("error", reject);
    const late = Object.assign(new Error("The mail server took too long"), { code: "ETIMEDOUT" });
    const timer = setTimeout(reject, totalMs, late);
    over.addEventListener("abort", () => clearTimeout(timer));
  });
}

/** Returns whether an EHLO response offers SMTPUTF8. Its first line is the server's name and is skipped. */
function offersUtf8(answer: string | false): boolean {
  return answer !== false && /\n250[ -]SMTPUTF8\b/i.test(answer);
}

function isRefusedMail(error: unknown): boolean {
  const { responseCode } = error as { responseCode?: number };
  return responseCode !== undefined && responseCode >= 400;
}
