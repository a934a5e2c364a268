import { parseArgs } from "node:util";

export type Settings = {
  baseUrl: string;
  /** URL that returns `{mails: [{to, text}]}` as JSON, newest message first. */
  mailbox: string;
  word: string;
  /** Whether to request codes until the service refuses. The address then cannot sign in for a while. */
  limits: boolean;
};

const USAGE = `Usage: npm run contract -- --base-url <url> [--mailbox <url>] [--word <word>] [--limits]

  --base-url  the running service, for instance http://127.0.0.1:8080
  --mailbox   where mail is read: JSON {"mails":[{"to","text"}]}, newest first; default <base-url>/dev/mailbox
  --word      the word in paths and headers; default service
  --limits    also ask for codes until the service refuses`;

/** Parses the command line. If it is invalid, prints the usage and returns `undefined`. */
export function readSettings(args: string[]): Settings | undefined {
  try {
    const { values } = parseArgs({
      args,
      options: {
        "base-url": { type: "string" },
        mailbox: { type: "string" },
        word: { type: "string", default: "service" },
        limits: { type: "boolean", default: false },
      },
    });
    const baseUrl = new URL(values["base-url"] ?? "").href.replace(/\/$/, "");
    return {
      baseUrl,
      mailbox: values.mailbox ?? `${baseUrl}/dev/mailbox`,
      word: values.word,
      limits: values.limits,
    };
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    return undefined;
  }
}
