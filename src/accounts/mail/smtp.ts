import type { Readable } from "node:stream";
import type MimeNode from "nodemailer/lib/mime-node";
import SMTPConnection from "nodemailer/lib/smtp-connection";
import type SMTPTransport from "nodemailer/lib/smtp-transport";

/** A mail server as the library reads its URL: how to connect and how to log in. */
export type SmtpServer = Pick<SMTPTransport, "options" | "auth">;

/**
 * Hands one mail over to a server, on a connection of its own, within `totalMs`. The library's own way sends
 * a mail to an address beyond ASCII also to a server without SMTPUTF8, which may deliver it elsewhere; here
 * such a server gets neither address nor text. An error has `inDoubt: true` when the text was begun and the
 * server did not refuse it.
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

type Outgoing = { envelope: ReturnType<MimeNode["getEnvelope"]>; content: Readable };

async function converse(
  connection: SMTPConnection,
  { options, auth }: SmtpServer,
  { envelope, content }: Outgoing,
): Promise<void> {
  await step((done) => connection.connect(done));
  const isAscii = /^[\0-\x7f]*$/.test([envelope.from, ...envelope.to].join());
  // Until the login this is the answer to EHLO; after STARTTLS to the second one.
  if (!isAscii && !offersUtf8(connection.lastServerResponse)) {
    throw Object.assign(new Error("The mail server does not support SMTPUTF8"), { code: "ENOUTF8" });
  }
  if (auth && (connection.allowsAuth || options.forceAuth)) {
    await step((done) => connection.login(auth, done));
  }
  await step((done) => connection.send(envelope, content, done));
}

function step(run: (done: (error?: Error | null) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => run((error) => (error ? reject(error) : resolve())));
}

/** Rejects when the connection fails, which not every step notices, and when the time is over. */
function failureOf(connection: SMTPConnection, totalMs: number, over: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    connection.on("error", reject);
    const late = Object.assign(new Error("The mail server took too long"), { code: "ETIMEDOUT" });
    const timer = setTimeout(reject, totalMs, late);
    over.addEventListener("abort", () => clearTimeout(timer));
  });
}

/** Whether an answer to EHLO has the line; its first line is the server's name. */
function offersUtf8(answer: string | false): boolean {
  return answer !== false && /\n250[ -]SMTPUTF8\b/i.test(answer);
}

function isRefusedMail(error: unknown): boolean {
  const { responseCode } = error as { responseCode?: number };
  return responseCode !== undefined && responseCode >= 400;
}
