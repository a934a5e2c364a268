import type { AddressInfo } from "node:net";
import { SMTPServer } from "smtp-server";

/** A mail that arrived: its envelope and its text as sent. */
export type ReceivedMail = { from: string; to: string[]; raw: string; smtpUtf8: boolean };

/** A real SMTP receiver on this machine. */
export type SmtpReceiver = {
  url: string;
  mails: ReceivedMail[];
  /** What the next mails meet: `take` them, `reject` the recipient, `refuse` the content. */
  behave(how: "take" | "reject" | "refuse"): void;
  stop(): Promise<void>;
};

/** Starts one, without TLS and without authentication. It takes addresses beyond ASCII unless `ascii` is set. */
export async function startSmtp({ ascii = false } = {}): Promise<SmtpReceiver> {
  const mails: ReceivedMail[] = [];
  let behaviour: "take" | "reject" | "refuse" = "take";
  const server = new SMTPServer({
    authOptional: true,
    hideSMTPUTF8: ascii,
    disabledCommands: ["STARTTLS"],
    logger: false,
    onRcptTo: (_address, _session, done) =>
      done(
        behaviour === "reject" ? Object.assign(new Error("no such mailbox"), { responseCode: 550 }) : null,
      ),
    onData(stream, session, done) {
      const chunks: Buffer[] = [];
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("end", () => {
        if (behaviour === "refuse") {
          done(Object.assign(new Error("try again later"), { responseCode: 451 }));
          return;
        }
        const { mailFrom, rcptTo, smtpUtf8 = false } = session.envelope;
        mails.push({
          from: mailFrom === false ? "" : mailFrom.address,
          to: rcptTo.map(({ address }) => address),
          raw: Buffer.concat(chunks).toString(),
          smtpUtf8,
        });
        done();
      });
    },
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `smtp://127.0.0.1:${(server.server.address() as AddressInfo).port}`,
    mails,
    behave(how) {
      behaviour = how;
    },
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  };
}
