import { expect } from "vitest";

/** `body` is the decoded JSON object, or empty for other content. `text` is the raw content. */
export type HttpAnswer = { status: number; headers: Headers; body: Record<string, unknown>; text: string };

export type CallOptions = {
  body?: unknown;
  headers?: Record<string, string>;
  /** `false` omits the CSRF header. */
  csrf?: boolean;
};

/**
 * A minimal browser: it keeps cookies, and copies the CSRF cookie to the header in calls that change state.
 */
export type HttpClient = {
  get(path: string, options?: CallOptions): Promise<HttpAnswer>;
  post(path: string, body?: unknown, options?: CallOptions): Promise<HttpAnswer>;
  call(method: string, path: string, options?: CallOptions): Promise<HttpAnswer>;
  cookie(name: string): string | undefined;
  setCookie(name: string, value: string): void;
  /** Returns the newest code in the development mailbox, short or long. */
  codeFor(email: string): Promise<string>;
  /** Signs in by email. The first sign-in creates the account. */
  signIn(email: string): Promise<{ account_id: string; onboarding_step: string }>;
  onboard(
    email: string,
    type?: { organization_name: string },
  ): Promise<{ account_id: string; human_id: string }>;
};

/** Creates a client with separate cookies. `word` is the name of the service in paths. */
export function createClient(baseUrl: string, word = "service"): HttpClient {
  const cookies = new Map<string, { value: string; path: string }>();

  function cookieHeader(path: string): string {
    return [...cookies]
      .filter(([, cookie]) => path.startsWith(cookie.path))
      .map(([name, { value }]) => `${name}=${value}`)
      .join("; ");
  }

  function keep(header: string): void {
    const [pair = "", ...attributes] = header.split("; ");
    const [name = "", value = ""] = pair.split("=");
    const of = (key: string) => attributes.find((each) => each.startsWith(`${key}=`))?.slice(key.length + 1);
    const path = of("Path") ?? "/";
    if (of("Max-Age") !== "0") {
      cookies.set(name, { value, path });
    } else if (cookies.get(name)?.path === path && of("Domain") === undefined) {
      cookies.delete(name);
    }
  }

  const client: HttpClient = {
    get: (path, options) => client.call("GET", path, options),
    post: (path, body, options) => client.call("POST", path, { body, ...options }),
    async call(method, path, { body, headers = {}, csrf = method !== "GET" } = {}) {
      const cookie = cookieHeader(path);
      const token = cookies.get(`${word}_csrf`)?.value;
      const response = await fetch(new URL(path, baseUrl), {
        method,
        redirect: "manual",
        headers: {
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...(cookie === "" ? {} : { cookie }),
          ...(csrf && token !== undefined ? { [`x-${word}-csrf`]: token } : {}),
          ...headers,
        },
        ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      });
      response.headers.getSetCookie().forEach(keep);
      const text = await response.text();
      return {
        status: response.status,
        headers: response.headers,
        body: readJson(response, text),
        text,
      };
    },
    cookie: (name) => cookies.get(name)?.value,
    setCookie: (name, value) => {
      cookies.set(name, { value, path: cookies.get(name)?.path ?? "/" });
    },
    async codeFor(email) {
      const { body } = await client.get("/dev/mailbox", { headers: { accept: "application/json" } });
      const received = (body.mails as { to: string; text: string }[]).filter(({ to }) => to === email);
      // The newest mail can be about something else: the API sends other mails at any time.
      const codes = received.map(({ text }) => /\b([0-9]{6}|[0-9a-f]{32})\b/.exec(text)?.[0]);
      return codes.find((code) => code !== undefined) ?? "";
    },
    async signIn(email) {
      const sent = await client.post("/v1/auth/email/send-code", { email });
      expect(sent).toMatchObject({ status: 200, body: { status: "code_sent" } });
      const verified = await client.post("/v1/auth/email/verify-code", {
        email,
        code: await client.codeFor(email),
      });
      expect(verified.status).toBe(200);
      return verified.body as { account_id: string; onboarding_step: string };
    },
    async onboard(email, type) {
      const { account_id } = await client.signIn(email);
      const profile = await client.post("/v1/auth/onboarding/profile", {
        first_name: "Ada",
        last_name: "Lovelace",
      });
      expect(profile.status).toBe(200);
      const chosen = await client.post(
        "/v1/auth/onboarding/account-type",
        type === undefined ? { account_type: "individual" } : { account_type: "organization", ...type },
      );
      expect(chosen.status).toBe(200);
      return { account_id, human_id: String(chosen.body.human_id) };
    },
  };
  return client;
}

function readJson({ headers }: Response, text: string): Record<string, unknown> {
  const isJson = headers.get("content-type")?.startsWith("application/json") ?? false;
  return isJson && text !== "" ? JSON.parse(text) : {};
}
