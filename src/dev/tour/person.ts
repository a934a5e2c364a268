import { once } from "node:events";
import { createInterface } from "node:readline/promises";

/** A person who uses the API like a browser: keeps cookies, sends the CSRF value, and reads sign-in codes. */
export type Person = {
  email: string;
  /**
   * Calls the API for an account, by default the person's own. Throws `UnexpectedAnswer` if the status is not
   * a success.
   */
  call<T>(method: Method, path: string, body?: unknown, account?: string): Promise<T>;
};

type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

class UnexpectedAnswer extends Error {
  constructor(what: string, status: number, body: string) {
    super(`${what} answered ${status}: ${body.slice(0, 300)}`);
  }
}

/** Returns the code that was emailed to a person. */
export type CodeReader = (person: Person) => Promise<string>;

type Mail = { to: string; text: string };

const CALL_TIMEOUT_MS = 15_000;
/** Other emails may contain six-digit numbers too. */
const CODE = /^Your sign-in code is (\d{6})$/m;

/** Reads the code from the API's development mailbox. */
export const codeInMailbox: CodeReader = async (person) => {
  const code = await findInMailbox(person, CODE);
  if (!code) throw new Error("The sign-in code did not arrive in the development mailbox");
  return code;
};

/** Returns the first group of a pattern in the newest mail to a person that matches it. */
export async function findInMailbox({ email, call }: Person, pattern: RegExp): Promise<string | undefined> {
  const { mails } = await call<{ mails: Mail[] }>("GET", "/dev/mailbox");
  const found = mails.map(({ to, text }) => (to === email ? pattern.exec(text)?.[1] : undefined));
  return found.find((text) => text !== undefined);
}

/**
 * Signs in with an emailed code. Completes the onboarding if the account is new, for the person or for an
 * organization with this name.
 */
export async function signIn(
  baseUrl: string,
  email: string,
  readCode: CodeReader = codeInMailbox,
  organization?: string,
): Promise<{ person: Person; code: string; humanId: string; isNew: boolean }> {
  const cookies = new Map<string, string>();

  async function call<T>(method: string, path: string, body?: unknown, account?: string): Promise<T> {
    const response = await fetch(new URL(path, baseUrl), {
      method,
      headers: {
        accept: "application/json",
        cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; "),
        "x-service-csrf": cookies.get("service_csrf") ?? "",
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(account === undefined ? {} : { "x-service-account": account }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
    });
    const text = await response.text();
    if (!response.ok) throw new UnexpectedAnswer(`${method} ${path}`, response.status, text);
    for (const cookie of response.headers.getSetCookie()) {
      const [pair = ""] = cookie.split(";");
      const cut = pair.indexOf("=");
      cookies.set(pair.slice(0, cut), pair.slice(cut + 1));
    }
    return JSON.parse(text) as T;
  }

  await call("POST", "/v1/auth/email/send-code", { email });
  const person = { email, call };
  const code = await readCode(person);
  let { onboarding_step: step } = await call<{ onboarding_step: string }>(
    "POST",
    "/v1/auth/email/verify-code",
    {
      email,
      code,
    },
  );
  const isNew = step !== "complete";
  if (step === "profile") {
    const names = { first_name: "Olivia", last_name: "Owner" };
    ({ onboarding_step: step } = await call<{ onboarding_step: string }>(
      "POST",
      "/v1/auth/onboarding/profile",
      names,
    ));
  }
  if (step === "account_type") {
    const type =
      organization === undefined
        ? { account_type: "individual" }
        : { account_type: "organization", organization_name: organization };
    await call("POST", "/v1/auth/onboarding/account-type", type);
  }
  const session = await call<{ human_id: string }>("GET", "/v1/auth/session");
  return { person, code, humanId: session.human_id, isNew };
}

/** Returns a function that asks at the terminal for the emailed code. */
export function askForCode(
  { input, output }: { input: NodeJS.ReadableStream; output: NodeJS.WritableStream },
  interrupted: AbortSignal,
  begin: () => void,
): CodeReader {
  return async ({ email }) => {
    begin();
    // A terminal in raw mode would swallow Ctrl-C, which must reach this process.
    const lines = createInterface({ input, output, terminal: false });
    try {
      const answer = lines.question(`The code that was mailed to ${email}: `, { signal: interrupted });
      const code = await Promise.race([answer, once(lines, "close").then(() => "")]);
      if (code.trim() === "") throw new Error("No code was entered");
      return code.trim();
    } finally {
      lines.close();
    }
  };
}
