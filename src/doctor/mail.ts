import { checkMailServer, greetingOf } from "../accounts/mail/mail.ts";
import { type Fault, networkFault, withoutSecrets } from "../input/network_fault.ts";
import { type Check, check, type Finding, failed, ok } from "./check.ts";

const TOTAL_MS = 7_000;
const NO_SENDER = "no-reply@localhost";

/** Returns the check of the mail server. It greets the server and logs in, and sends nothing. */
export function mailChecks(): Check[] {
  return [
    check("mail server", ["SMTP_URL", "BASE_URL"], async ({ SMTP_URL, BASE_URL, MAIL_FROM = "" }) => {
      const place = withoutSecrets(SMTP_URL);
      const name = greetingOf(BASE_URL);
      try {
        const { isEncrypted, isLoggedIn } = await checkMailServer({ SMTP_URL, BASE_URL }, TOTAL_MS);
        if (MAIL_FROM.includes(NO_SENDER)) {
          return failed(
            `${place} answers, but MAIL_FROM is not set`,
            "Set MAIL_FROM to an address that this server may send from.",
          );
        }
        const greeted = name === undefined ? "without a name" : `as ${name}`;
        const safety = isEncrypted ? "with TLS" : "without TLS";
        return ok(
          `${place} accepts the greeting ${greeted}, ${safety}, ${isLoggedIn ? "with" : "without"} a login`,
        );
      } catch (error) {
        return explain(error, place, name ?? "this machine's address");
      }
    }),
  ];
}

type MailError = { code?: string; command?: string; responseCode?: number };

/** Never quotes the server's response, which may repeat the login. */
function explain(error: unknown, place: string, name: string): Finding {
  const { code, command, responseCode } = error as MailError;
  const answer = responseCode === undefined ? "" : ` (${responseCode})`;
  if (code === "EAUTH") {
    return failed(`${place} refuses the login${answer}`, "Correct user and password in SMTP_URL.");
  }
  const fault = certificateFault(error) ?? networkFault(error);
  if (code === "ETLS" || command === "STARTTLS") {
    return failed(
      `${place}: TLS could not be started${fault === undefined ? answer : `: ${fault.what}`}`,
      "Use smtps:// for port 465 and smtp:// for port 587, and check the server's certificate.",
    );
  }
  if (responseCode !== undefined && (command === "EHLO" || command === "HELO" || command === "CONN")) {
    return failed(
      `${place} refuses the greeting as ${name}${answer}`,
      "Allow this name and this network's address at the relay. The name is the host of BASE_URL.",
    );
  }
  if (responseCode !== undefined) {
    return failed(`${place} refuses ${command}${answer}`, "Look into the relay's log.");
  }
  if (fault !== undefined) return failed(`${place}: ${fault.what}`, fault.action);
  return failed(`${place} does not answer as a mail server`, "Check host and port in SMTP_URL.");
}

/** The library replaces the code of an error about a certificate, so its message must tell. */
const MESSAGES: readonly [RegExp, string][] = [
  [/^self-signed certificate$/, "DEPTH_ZERO_SELF_SIGNED_CERT"],
  [/self-signed certificate in|unable to (?:get|verify)/, "UNABLE_TO_VERIFY_LEAF_SIGNATURE"],
  [/certificate has expired/, "CERT_HAS_EXPIRED"],
  [/does not match certificate's altnames/, "ERR_TLS_CERT_ALTNAME_INVALID"],
  [/wrong version number|packet length too long/, "ERR_SSL_WRONG_VERSION_NUMBER"],
];

function certificateFault(error: unknown): Fault | undefined {
  const { message } = error as Error;
  const code = MESSAGES.find(([pattern]) => pattern.test(message))?.[1];
  return code === undefined ? undefined : networkFault(Object.assign(new Error(), { code }));
}
