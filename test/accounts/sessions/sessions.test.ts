import { createHmac, hkdfSync } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createSessionTokens } from "../../../src/accounts/sessions/sessions.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import type { HttpAnswer, HttpClient } from "../../support/http.ts";

const SESSION = "/v1/auth/session";
const REFRESH = "/v1/auth/refresh";
const LOGOUT = "/v1/auth/logout";
const signedOut = { status: 401, body: { error: { code: "auth_required", status: 401 } } };
const DAY = 24 * 60 * 60;

let api: TestApi;
let other: TestApi;
beforeAll(async () => {
  api = await startApi();
  other = await startApi({ shares: api });
});
afterAll(async () => {
  await other.stop();
  await api.stop();
});

let count = 0;
async function signedIn(email = `person${++count}@example.com`): Promise<HttpClient> {
  const client = api.client();
  await client.signIn(email);
  return client;
}

/** Returns a client with a copy of the current cookies. */
function copyOf(client: HttpClient, at: TestApi = api): HttpClient {
  const copy = at.client();
  for (const name of ["service_session", "service_refresh", "service_csrf"]) {
    copy.setCookie(name, client.cookie(name) ?? "");
  }
  return copy;
}

function cookieNamed(answer: HttpAnswer, name: string): string {
  return answer.headers.getSetCookie().find((cookie) => cookie.startsWith(`${name}=`)) ?? "";
}

describe("a session", () => {
  test("shows who is signed in and until when, but never its tokens", async () => {
    const client = await signedIn("ada@example.com");
    const answer = await client.get(SESSION);
    expect(answer.body).toEqual({
      account_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      email: "ada@example.com",
      first_name: null,
      last_name: null,
      onboarding_step: "profile",
      account_type: null,
      organization_name: null,
      human_id: null,
      credits: 0,
      expires_at: new Date(api.clock.now().getTime() + 900_000).toISOString(),
      accounts: [
        {
          account_id: answer.body.account_id,
          organization_name: null,
          role: "owner",
          credit: null,
          waiting: 0,
        },
      ],
      service_administrator: false,
    });
    for (const name of ["service_session", "service_refresh", "service_csrf"]) {
      expect(client.cookie(name)).toMatch(/^[A-Za-z0-9_-]{43}$/);
      expect(answer.text).not.toContain(client.cookie(name));
    }
  });

  test("lasts until one millisecond before 15 minutes", async () => {
    const client = await signedIn();
    api.clock.advance(899.999);
    expect((await client.get(SESSION)).status).toBe(200);
  });

  test("expires after 15 minutes", async () => {
    const client = await signedIn();
    api.clock.advance(900);
    expect(await client.get(SESSION)).toMatchObject(signedOut);
  });

  test("works on every replica", async () => {
    expect((await copyOf(await signedIn(), other).get(SESSION)).status).toBe(200);
  });

  test.each([
    ["missing", undefined],
    ["empty", ""],
    ["unknown", "x".repeat(43)],
    ["malformed", "%%%"],
  ])("cannot be opened with a cookie that is %s", async (_, token) => {
    const client = api.client();
    if (token !== undefined) client.setCookie("service_session", token);
    expect(await client.get(SESSION)).toMatchObject(signedOut);
  });

  test("leaves only hashes of its tokens in the database", async () => {
    const client = await signedIn();
    const { rows } = await api.db.raw("select string_agg(sessions::text, ' ') as text from sessions");
    for (const name of ["service_session", "service_refresh", "service_csrf"]) {
      expect(rows[0].text).not.toContain(client.cookie(name));
      expect(rows[0].text).not.toContain(Buffer.from(client.cookie(name) ?? "").toString("hex"));
      expect(rows[0].text).not.toContain(Buffer.from(client.cookie(name) ?? "", "base64url").toString("hex"));
    }
  });

  test("never has its tokens in the log", async () => {
    const client = await signedIn();
    await client.post(REFRESH);
    const lines = api.lines.join("");
    for (const name of ["service_session", "service_refresh", "service_csrf"]) {
      expect(lines).not.toContain(client.cookie(name));
    }
  });
});

describe("cookies", () => {
  test("have the attributes that their purpose needs", async () => {
    const client = api.client();
    await client.post("/v1/auth/email/send-code", { email: "cookies@example.com" });
    const answer = await client.post("/v1/auth/email/verify-code", {
      email: "cookies@example.com",
      code: await client.codeFor("cookies@example.com"),
    });
    const attributes = (name: string) => cookieNamed(answer, name).split("; ").slice(1).sort();
    expect(attributes("service_session")).toEqual(["HttpOnly", "Max-Age=900", "Path=/", "SameSite=Lax"]);
    expect(attributes("service_refresh")).toEqual([
      "HttpOnly",
      "Max-Age=2592000",
      "Path=/v1/auth/refresh",
      "SameSite=Lax",
    ]);
    expect(attributes("service_csrf")).toEqual(["Max-Age=2592000", "Path=/", "SameSite=Lax"]);
    expect(answer.headers.getSetCookie()).toHaveLength(3);
  });
});

describe("a refresh", () => {
  test("returns a session of 15 minutes with three new cookies, and ends the previous session", async () => {
    const client = await signedIn();
    const before = copyOf(client);
    api.clock.advance(600);
    const answer = await client.post(REFRESH);
    const end = new Date(api.clock.now().getTime() + 900_000).toISOString();
    expect(answer).toMatchObject({ status: 200, text: JSON.stringify({ expires_at: end }) });
    for (const name of ["service_session", "service_refresh", "service_csrf"]) {
      expect(client.cookie(name)).not.toBe(before.cookie(name));
    }
    expect((await client.get(SESSION)).body).toMatchObject({ expires_at: end });
    expect(await before.get(SESSION)).toMatchObject(signedOut);
  });

  test("makes only the new CSRF token valid", async () => {
    const client = await signedIn();
    const old = client.cookie("service_csrf") ?? "";
    await client.post(REFRESH);
    expect(await client.post(LOGOUT, {}, { headers: { "x-service-csrf": old } })).toMatchObject({
      status: 403,
      body: { error: { code: "csrf_failed" } },
    });
    expect((await client.post(LOGOUT, {})).status).toBe(200);
  });

  test("works long after the session has expired, until the refresh token is 30 days old", async () => {
    const client = await signedIn();
    api.clock.advance(30 * DAY - 0.001);
    expect((await client.post(REFRESH)).status).toBe(200);
  });

  test("fails once the refresh token is 30 days old", async () => {
    const client = await signedIn();
    api.clock.advance(30 * DAY);
    expect(await client.post(REFRESH)).toMatchObject(signedOut);
  });

  test("returns no session that ends later than 30 days after the sign-in, however often it is used", async () => {
    const client = await signedIn();
    for (let day = 0; day < 29; day += 1) {
      api.clock.advance(DAY);
      expect((await client.post(REFRESH)).status).toBe(200);
    }
    api.clock.advance(DAY - 60);
    const end = new Date(api.clock.now().getTime() + 60_000).toISOString();
    expect(await client.post(REFRESH)).toMatchObject({ status: 200, body: { expires_at: end } });
    api.clock.advance(59.999);
    expect((await client.get(SESSION)).status).toBe(200);
    api.clock.advance(0.001);
    expect(await client.get(SESSION)).toMatchObject(signedOut);
    expect(await client.post(REFRESH)).toMatchObject(signedOut);
    await client.signIn("again@example.com");
    expect((await client.post(REFRESH)).status).toBe(200);
  });

  test("ends after SIGN_IN_DAYS", async () => {
    const strict = await startApi({ shares: api, config: { SIGN_IN_DAYS: 2 } });
    try {
      const client = strict.client();
      await client.signIn("two.days@example.com");
      const older = copyOf(await signedIn("older@example.com"), strict);
      api.clock.advance(2 * DAY - 0.001);
      expect((await client.post(REFRESH)).status).toBe(200);
      api.clock.advance(0.001);
      for (const ended of [client, older]) expect(await ended.post(REFRESH)).toMatchObject(signedOut);
    } finally {
      await strict.stop();
    }
  });

  test("fails without a refresh cookie, or with an unknown one", async () => {
    expect(await api.client().post(REFRESH)).toMatchObject(signedOut);
    const client = await signedIn();
    client.setCookie("service_refresh", "x".repeat(43));
    expect(await client.post(REFRESH)).toMatchObject(signedOut);
  });

  test.each([
    ["no header", { csrf: false }],
    ["another header", { headers: { "x-service-csrf": "x".repeat(43) } }],
  ])("changes nothing with %s, and the token stays unused", async (_, options) => {
    const client = await signedIn();
    for (let n = 0; n < 3; n += 1) {
      expect(await client.post(REFRESH, undefined, options)).toMatchObject({
        status: 403,
        body: { error: { code: "csrf_failed" } },
      });
    }
    expect((await client.get(SESSION)).status).toBe(200);
    expect((await client.post(REFRESH)).status).toBe(200);
  });

  test("ends the whole family, including the newest session, if the token was used before", async () => {
    const client = await signedIn();
    const thief = copyOf(client);
    await client.post(REFRESH);
    await client.post(REFRESH);
    expect(await thief.post(REFRESH)).toMatchObject(signedOut);
    expect(await client.get(SESSION)).toMatchObject(signedOut);
    expect(await client.post(REFRESH)).toMatchObject(signedOut);
    expect(api.lines.some((line) => line.includes("a refresh token was used twice"))).toBe(true);
  });

  test("ends only one family, and the same person's other sign-ins stay valid", async () => {
    const [one, two] = [await signedIn("both@example.com"), await signedIn("both@example.com")];
    const thief = copyOf(one);
    await one.post(REFRESH);
    api.clock.advance(10);
    await thief.post(REFRESH);
    expect(await one.get(SESSION)).toMatchObject(signedOut);
    expect((await two.get(SESSION)).status).toBe(200);
  });

  test("returns the same session to two tabs that refresh concurrently, on any replica", async () => {
    for (let round = 0; round < 10; round += 1) {
      const client = await signedIn();
      const [first, second] = [copyOf(client), copyOf(client, other)];
      const answers = await Promise.all([first.post(REFRESH), second.post(REFRESH)]);
      expect(answers.map(({ status }) => status)).toEqual([200, 200]);
      for (const name of ["service_session", "service_refresh", "service_csrf"]) {
        expect(second.cookie(name)).toBe(first.cookie(name));
        expect(second.cookie(name)).not.toBe(client.cookie(name));
      }
      expect(await client.get(SESSION)).toMatchObject(signedOut);
      expect((await second.get(SESSION)).status).toBe(200);
      expect((await first.post(REFRESH)).status).toBe(200);
    }
  });

  describe("with a token that is sent again", () => {
    const proxied = { TRUSTED_PROXIES: ["127.0.0.0/8"] };
    let behind: TestApi;
    beforeAll(async () => {
      behind = await startApi({ shares: api, config: proxied });
    });
    afterAll(() => behind.stop());

    const as = (ip: string, agent = "Browser/1") => ({
      headers: { "x-forwarded-for": ip, "user-agent": agent },
    });

    /** Returns a browser that has just refreshed, and a copy of the browser from before the refresh. */
    async function refreshed(ip = "203.0.113.7"): Promise<{ client: HttpClient; before: HttpClient }> {
      const client = await signedIn();
      const [now, before] = [copyOf(client, behind), copyOf(client, behind)];
      expect((await now.post(REFRESH, undefined, as(ip))).status).toBe(200);
      return { client: now, before };
    }

    test("returns the same answer to the same client for less than 10 seconds", async () => {
      const { client, before } = await refreshed();
      const end = (await client.get(SESSION)).body.expires_at;
      api.clock.advance(9.999);
      const answer = await before.post(REFRESH, undefined, as("203.0.113.7"));
      expect(answer).toMatchObject({ status: 200, body: { expires_at: end } });
      expect(before.cookie("service_csrf")).toBe(client.cookie("service_csrf"));
      expect((await before.post(LOGOUT)).status).toBe(200);
    });

    test("logs a repeated answer in one line, with account and family but no token", async () => {
      const { client, before } = await refreshed();
      const linesOf = () => behind.lines.filter((line) => line.includes("refresh token was sent again"));
      const [token = "", earlier] = [before.cookie("service_refresh"), linesOf().length];
      await before.post(REFRESH, undefined, as("203.0.113.7"));
      const [line = "{}", ...more] = linesOf().slice(earlier);
      expect(more).toEqual([]);
      const { account_id } = (await client.get(SESSION)).body;
      const [{ family_id } = {}] = await api.db("session_families").where({ account_id: String(account_id) });
      const { level, time, pid, hostname, msg, ...fields } = JSON.parse(line);
      expect({ level, ...fields }).toEqual({ level: 30, account_id, family_id });
      for (const secret of [
        token,
        ...["service_session", "service_refresh", "service_csrf"].map((name) => client.cookie(name)),
      ]) {
        expect(behind.lines.join("")).not.toContain(secret);
      }
    });

    test("ends the family after 10 seconds", async () => {
      const { client, before } = await refreshed();
      api.clock.advance(10);
      expect(await before.post(REFRESH, undefined, as("203.0.113.7"))).toMatchObject(signedOut);
      expect(await client.get(SESSION)).toMatchObject(signedOut);
    });

    test.each([
      ["another user agent", as("203.0.113.7", "Browser/2")],
      ["another user agent and another address", as("2001:db8::8", "Browser/2")],
    ])("ends the family immediately if the token comes from %s", async (_, options) => {
      const { client, before } = await refreshed();
      expect(await before.post(REFRESH, undefined, options)).toMatchObject(signedOut);
      expect(await client.get(SESSION)).toMatchObject(signedOut);
      expect(await client.post(REFRESH, undefined, as("203.0.113.7"))).toMatchObject(signedOut);
    });

    test("returns the same answer to the same device at another address, and keeps the session", async () => {
      const { client, before } = await refreshed("2001:db8:1:1::1");
      expect((await before.post(REFRESH, undefined, as("203.0.113.8"))).status).toBe(200);
      expect(before.cookie("service_refresh")).toBe(client.cookie("service_refresh"));
      expect((await client.get(SESSION)).status).toBe(200);
    });

    describe("and was first used at a process of the former version", () => {
      /** Stores the client as the former version did: by its network and user agent. */
      async function storeFormer(client: HttpClient): Promise<void> {
        const { account_id } = (await client.get(SESSION)).body;
        const refreshed_by = createSessionTokens(api.sealingKey).formerClient("203.0.113.7", "Browser/1");
        const rows = api
          .db("sessions")
          .where({ account_id: String(account_id) })
          .whereNotNull("refreshed_at");
        expect(await rows.update({ refreshed_by })).toBe(1);
      }

      test("returns the same answer to the same network and user agent", async () => {
        const { client, before } = await refreshed();
        await storeFormer(client);
        expect((await before.post(REFRESH, undefined, as("203.0.113.7"))).status).toBe(200);
        expect(before.cookie("service_refresh")).toBe(client.cookie("service_refresh"));
        expect((await client.get(SESSION)).status).toBe(200);
      });

      test.each([as("203.0.113.8"), as("203.0.113.7", "Browser/2")])(
        "ends the family for another network or user agent: %j",
        async (options) => {
          const { client, before } = await refreshed();
          await storeFormer(client);
          expect(await before.post(REFRESH, undefined, options)).toMatchObject(signedOut);
          expect(await client.get(SESSION)).toMatchObject(signedOut);
        },
      );
    });

    test("ends the family if the session from the first answer was already refreshed", async () => {
      const { client, before } = await refreshed();
      expect((await client.post(REFRESH, undefined, as("203.0.113.7"))).status).toBe(200);
      expect(await before.post(REFRESH, undefined, as("203.0.113.7"))).toMatchObject(signedOut);
      expect(await client.get(SESSION)).toMatchObject(signedOut);
    });

    test("fails after a sign-out, and also without the CSRF header", async () => {
      const { client, before } = await refreshed();
      expect(await before.post(REFRESH, undefined, { ...as("203.0.113.7"), csrf: false })).toMatchObject({
        status: 403,
      });
      expect((await client.get(SESSION)).status).toBe(200);
      await client.post(LOGOUT);
      expect(await before.post(REFRESH, undefined, as("203.0.113.7"))).toMatchObject(signedOut);
    });
  });

  test("hashes clients like the former version, by an IPv4 address or an IPv6 /64", () => {
    const sealingKey = Buffer.alloc(32, 1);
    const key = Buffer.from(hkdfSync("sha256", sealingKey, "", "deputize session tokens v1", 32));
    const mac = (...parts: string[]) => createHmac("sha256", key).update(JSON.stringify(parts)).digest();
    const { formerClient } = createSessionTokens(sealingKey);
    expect(formerClient("203.0.113.7", "B/1")).toEqual(mac("client", "203.0.113.7", "B/1"));
    expect(formerClient("2001:db8:1:2::3", "B/1")).toEqual(formerClient("2001:db8:1:2::4", "B/1"));
    expect(formerClient("203.0.113.7", undefined)).toEqual(mac("client", "203.0.113.7", ""));
  });

  test("derives the next tokens with the service's key, so that the old tokens do not reveal them", () => {
    const [one, two] = [createSessionTokens(Buffer.alloc(32, 1)), createSessionTokens(Buffer.alloc(32, 2))];
    const { sessionToken, refreshToken, csrfToken } = one.next("r");
    const all = [
      sessionToken,
      refreshToken,
      csrfToken,
      one.next("s").refreshToken,
      two.next("r").refreshToken,
    ];
    expect(new Set(all).size).toBe(5);
    expect(one.next("r")).toEqual({ sessionToken, refreshToken, csrfToken });
    expect(one.first().refreshToken).not.toBe(one.first().refreshToken);
  });
});

describe("signing out", () => {
  test("ends the session and its refresh token immediately, and clears the cookies", async () => {
    const client = await signedIn();
    const kept = copyOf(client);
    const answer = await client.post(LOGOUT);
    expect(answer).toMatchObject({ status: 200, text: '{"status":"signed_out"}' });
    for (const name of ["service_session", "service_refresh", "service_csrf"]) {
      expect(cookieNamed(answer, name)).toMatch(new RegExp(`^${name}=; Max-Age=0`));
      expect(client.cookie(name)).toBeUndefined();
    }
    expect(await kept.get(SESSION)).toMatchObject(signedOut);
    expect(await kept.post(REFRESH)).toMatchObject(signedOut);
  });

  test("does not end the person's other sign-ins", async () => {
    const [one, two] = [await signedIn("here@example.com"), await signedIn("here@example.com")];
    await one.post(LOGOUT, { everywhere: false });
    expect((await two.get(SESSION)).status).toBe(200);
  });

  test("everywhere ends all sign-ins of the person, and nobody else's", async () => {
    const [one, two] = [await signedIn("all@example.com"), await signedIn("all@example.com")];
    const stranger = await signedIn();
    expect((await one.post(LOGOUT, { everywhere: true })).status).toBe(200);
    expect(await two.get(SESSION)).toMatchObject(signedOut);
    expect(await two.post(REFRESH)).toMatchObject(signedOut);
    expect((await stranger.get(SESSION)).status).toBe(200);
  });

  test("requires the CSRF header", async () => {
    const client = await signedIn();
    expect(await client.post(LOGOUT, {}, { csrf: false })).toMatchObject({ status: 403 });
    expect((await client.get(SESSION)).status).toBe(200);
  });
});

test("a client that repeats a refresh token in a loop cannot flood the log", async () => {
  const client = await signedIn();
  const before = copyOf(client);
  await client.post(REFRESH);
  const linesOf = () => api.lines.filter((line) => line.includes("refresh token was sent again"));
  const known = linesOf().length;
  for (let time = 0; time < 100; time += 1) {
    const again = copyOf(before);
    expect((await again.post(REFRESH)).status).toBe(200);
  }
  expect(linesOf().length - known).toBe(60);
});
