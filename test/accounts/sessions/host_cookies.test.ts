import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApi, type TestApi } from "../../support/api.ts";
import type { HttpClient } from "../../support/http.ts";

const SESSION = "/v1/auth/session";
const REFRESH = "/v1/auth/refresh";
const LOGOUT = "/v1/auth/logout";
const NAMES = ["session", "refresh", "csrf"];

/** Names cookies like the former version, because its base URL is not https. */
let former: TestApi;
let current: TestApi;
beforeAll(async () => {
  former = await startApi();
  current = await startApi({ shares: former, config: { BASE_URL: "https://desk.example.test" } });
});
afterAll(async () => {
  await current.stop();
  await former.stop();
});

async function signedIn(at: TestApi): Promise<HttpClient> {
  const client = at.client();
  await client.signIn(`${randomUUID()}@example.com`);
  return client;
}

/** Returns a client of another API with the cookies of a browser. */
function movedTo(to: TestApi, from: HttpClient): HttpClient {
  const client = to.client();
  for (const name of NAMES.flatMap((each) => [`service_${each}`, `__Host-service_${each}`])) {
    const value = from.cookie(name);
    if (value !== undefined) client.setCookie(name, value);
  }
  return client;
}

/** Returns a client that sends only the cookies with the prefix. */
function withoutFormer(client: HttpClient): HttpClient {
  const rest = current.client();
  for (const name of NAMES.map((each) => `__Host-service_${each}`)) {
    rest.setCookie(name, client.cookie(name) ?? "");
  }
  return rest;
}

/** Expects that the cookies are of a session. The CSRF token is the one that pages of this API would send. */
async function expectSignedIn(client: HttpClient, api = current): Promise<string> {
  const { status, body } = await client.get(SESSION);
  expect(status).toBe(200);
  const prefixed = api === current ? client.cookie("__Host-service_csrf") : undefined;
  const token = prefixed ?? client.cookie("service_csrf") ?? "";
  const profile = { first_name: "Ada", last_name: "Lovelace" };
  const headers = { "x-service-csrf": token };
  const changed = await client.post("/v1/auth/onboarding/profile", profile, { headers });
  expect([200, 409]).toContain(changed.status);
  return String(body.account_id);
}

describe("a session with __Host- cookies", () => {
  test("has the same tokens under both names", async () => {
    const client = await signedIn(current);
    for (const name of NAMES) {
      expect(client.cookie(`__Host-service_${name}`)).toMatch(/^[\w-]{43}$/);
      expect(client.cookie(`service_${name}`)).toBe(client.cookie(`__Host-service_${name}`));
    }
    await expectSignedIn(withoutFormer(client));
  });

  test("ends with all its cookies at sign-out", async () => {
    const client = await signedIn(current);
    expect((await client.post(LOGOUT)).status).toBe(200);
    for (const name of NAMES.flatMap((each) => [`service_${each}`, `__Host-service_${each}`])) {
      expect(client.cookie(name)).toBeUndefined();
    }
  });

  test("names its cookie in a 401 response", async () => {
    const { headers } = await current.client().get(SESSION);
    expect(headers.get("www-authenticate")).toContain('cookie-name="__Host-service_session"');
  });
});

describe("an upgrade", () => {
  test("keeps the sessions of the former version, and renews them under the new names", async () => {
    const before = await signedIn(former);
    const account = await expectSignedIn(before, former);
    const client = movedTo(current, before);
    expect(await expectSignedIn(client)).toBe(account);
    former.clock.advance(900);
    expect((await client.get(SESSION)).status).toBe(401);
    expect((await client.post(REFRESH)).status).toBe(200);
    expect(client.cookie("__Host-service_session")).toBe(client.cookie("service_session"));
    expect(await expectSignedIn(withoutFormer(client))).toBe(account);
  });

  test("keeps sessions while processes of both versions take turns in refreshing them", async () => {
    let client = await signedIn(current);
    const account = await expectSignedIn(client);
    for (const api of [former, current, former, former, current, current, former]) {
      client = movedTo(api, client);
      if ((await client.get(SESSION)).status === 401) expect((await client.post(REFRESH)).status).toBe(200);
      expect((await client.post(REFRESH)).status).toBe(200);
      expect(await expectSignedIn(client, api)).toBe(account);
      former.clock.advance(901);
    }
    expect([...former.lines, ...current.lines].join("")).not.toContain("a refresh token was used twice");
  });

  test("keeps sessions through a rollback and a second upgrade, with either CSRF cookie in the header", async () => {
    for (const name of ["service_csrf", "__Host-service_csrf"]) {
      const start = await signedIn(current);
      const account = await expectSignedIn(start);
      const back = movedTo(former, start);
      for (let round = 0; round < 3; round += 1) {
        former.clock.advance(3600);
        expect((await back.post(REFRESH)).status).toBe(200);
      }
      const again = movedTo(current, back);
      expect((await again.get(SESSION)).status).toBe(401);
      const headers = { "x-service-csrf": again.cookie(name) ?? "" };
      expect((await again.post(REFRESH, undefined, { headers })).status).toBe(200);
      expect(await expectSignedIn(again)).toBe(account);
    }
  });

  test("ends a session if both of its refresh tokens were used before", async () => {
    const client = await signedIn(current);
    const thief = movedTo(current, client);
    const stolen = movedTo(former, client);
    await stolen.post(REFRESH);
    const middle = movedTo(former, stolen);
    await stolen.post(REFRESH);
    former.clock.advance(11);
    for (const name of NAMES) thief.setCookie(`service_${name}`, middle.cookie(`service_${name}`) ?? "");
    const headers = { "x-service-csrf": thief.cookie("__Host-service_csrf") ?? "" };
    expect((await thief.post(REFRESH, undefined, { headers })).status).toBe(401);
    expect((await stolen.get(SESSION)).status).toBe(401);
  });
});

describe("cookies that another host of the site set under the former names", () => {
  test("cannot replace a person's session, nor sign the browser in when that session has expired", async () => {
    const attacker = await signedIn(former);
    const victim = await signedIn(current);
    const account = await expectSignedIn(victim);
    for (const name of NAMES) victim.setCookie(`service_${name}`, attacker.cookie(`service_${name}`) ?? "");
    expect(await expectSignedIn(victim)).toBe(account);
    former.clock.advance(900);
    // Browsers delete the session's cookie after 15 minutes, but not the other two.
    const left = movedTo(current, victim);
    left.setCookie("__Host-service_session", "");
    expect((await left.get(SESSION)).status).toBe(401);
    const headers = { "x-service-csrf": left.cookie("__Host-service_csrf") ?? "" };
    expect((await left.post(REFRESH, undefined, { headers })).status).toBe(200);
    expect(await expectSignedIn(left)).toBe(account);
  });

  test("cannot be used to refresh a session whose own token was used", async () => {
    const attacker = await signedIn(former);
    const victim = await signedIn(current);
    const used = movedTo(current, victim);
    await victim.post(REFRESH);
    former.clock.advance(11);
    for (const name of NAMES) used.setCookie(`service_${name}`, attacker.cookie(`service_${name}`) ?? "");
    for (const name of ["service_csrf", "__Host-service_csrf"]) {
      const headers = { "x-service-csrf": used.cookie(name) ?? "" };
      expect([401, 403]).toContain((await used.post(REFRESH, undefined, { headers })).status);
    }
    expect((await attacker.post(REFRESH)).status).toBe(200);
  });

  test("cannot make calls fail, whatever they contain", async () => {
    const client = await signedIn(current);
    const own = NAMES.map((name) => `__Host-service_${name}=${client.cookie(`__Host-service_${name}`)}`);
    const planted = "service_session=a; service_session=b; service_csrf=a; service_csrf=b";
    const headers = {
      cookie: [planted, ...own].join("; "),
      "x-service-csrf": client.cookie("__Host-service_csrf") ?? "",
    };
    expect((await client.get(SESSION, { headers })).status).toBe(200);
    expect((await client.post(LOGOUT, {}, { headers })).status).toBe(200);
  });
});
