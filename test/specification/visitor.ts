import type { Settings } from "./settings.ts";

/** A complete response. `body` is empty if the content is not a JSON object. */
export type Answer = { status: number; headers: Headers; body: Record<string, unknown>; text: string };

/** Cookies by name, so that another visitor can continue with them. */
export type VisitorState = Record<string, string>;

/** A browser or an application that calls the service. */
export type Visitor = {
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  /** Signs in with a code from the mailbox. Returns the response to verify-code. */
  signIn(email: string): Promise<Answer>;
  codeFor(email: string): Promise<string>;
  state(): VisitorState;
};

/**
 * Creates a visitor with the cookies in `state`. The visitor copies the CSRF cookie to the CSRF header,
 * unless a call sets that header. In paths and headers it replaces `service` by the configured service name.
 */
export function createVisitor(
  { baseUrl, mailbox, word }: Settings,
  state: VisitorState = {},
  common: Record<string, string> = {},
): Visitor {
  const cookies = new Map(Object.entries(state));
  const named = (text: string) => text.replace(/(?<=^\/v1\/|^x-)service(?=[/-])/i, word);

  function keep(header: string): void {
    const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(header) ?? [];
    if (value === "") {
      cookies.delete(name);
    } else {
      cookies.set(name, value);
    }
  }

  async function call(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const csrf = cookies.get(`${word}_csrf`);
    const sent = {
      ...(csrf !== undefined && method !== "GET" ? { "x-service-csrf": csrf } : {}),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...common,
      ...headers,
    };
    const response = await fetch(`${baseUrl}${named(path)}`, {
      method,
      redirect: "manual",
      headers: {
        cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; "),
        ...Object.fromEntries(Object.entries(sent).map(([name, value]) => [named(name), value])),
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    for (const header of response.headers.getSetCookie()) keep(header);
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: objectOf(text), text };
  }

  const visitor: Visitor = {
    call,
    async codeFor(email) {
      const response = await fetch(mailbox, { headers: { accept: "application/json" } });
      const { mails } = (await response.json()) as { mails: { to: string; text: string }[] };
      const received = mails.filter(({ to }) => to === email);
      const code = received.map(({ text }) => /\b\d{6}\b/.exec(text)?.[0]).find((each) => each !== undefined);
      if (code === undefined) throw new Error(`no code for ${email} in ${mailbox}`);
      return code;
    },
    async signIn(email) {
      const sent = await call("POST", "/v1/auth/email/send-code", { email });
      if (sent.status !== 200) throw new Error(`no code was sent: ${sent.text}`);
      return call("POST", "/v1/auth/email/verify-code", { email, code: await visitor.codeFor(email) });
    },
    state: () => Object.fromEntries(cookies),
  };
  return visitor;
}

function objectOf(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** Throws unless the response is a success. */
export function must({ status, body, text }: Answer): Record<string, unknown> {
  if (status !== 200 && status !== 201) throw new Error(`${status}: ${text.slice(0, 300)}`);
  return body;
}

/** Returns an error response as `<status> <code>`. Throws unless it has exactly code, message and status. */
export function errorOf({ status, body, text }: Answer): string {
  const { error } = body as { error?: Record<string, unknown> };
  if (error === undefined) throw new Error(`${status} is no error: ${text.slice(0, 200)}`);
  const form = [
    Object.keys(body).join(),
    Object.keys(error).sort().join(),
    typeof error.message,
    error.status,
  ];
  if (JSON.stringify(form) !== JSON.stringify(["error", "code,message,status", "string", status])) {
    throw new Error(`${status} is an error of another form: ${text}`);
  }
  return `${status} ${String(error.code)}`;
}
