import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { SessionsAnswer } from "../../../src/accounts/sessions/own_sessions.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import type { HttpClient } from "../../support/http.ts";

const SESSIONS = "/v1/auth/sessions";
const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const newEmail = () => `${randomUUID()}@example.com`;

async function signedIn(email: string, userAgent?: string): Promise<HttpClient> {
  const client = api.client();
  await client.post("/v1/auth/email/send-code", { email });
  const headers = userAgent === undefined ? {} : { "user-agent": userAgent };
  const body = { email, code: await client.codeFor(email) };
  expect((await client.call("POST", "/v1/auth/email/verify-code", { body, headers })).status).toBe(200);
  return client;
}

async function sessionsOf(client: HttpClient): Promise<SessionsAnswer["sessions"]> {
  const answer = await client.get(SESSIONS);
  expect(answer.status).toBe(200);
  return (answer.body as SessionsAnswer).sessions;
}

const end = (client: HttpClient, id: string) => client.call("DELETE", `${SESSIONS}/${id}`);

describe("a person's list of sign-ins", () => {
  test("has each browser once, the last used first, with its device, times and the current one", async () => {
    const email = newEmail();
    const signedInAt = api.clock.now();
    const first = await signedIn(email, FIREFOX);
    api.clock.advance(60);
    const second = await signedIn(email, "curl/8.5.0");
    api.clock.advance(60);
    expect((await first.post("/v1/auth/refresh")).status).toBe(200);
    const [newest, older, ...more] = await sessionsOf(second);
    expect(more).toEqual([]);
    expect(newest).toMatchObject({
      device: "Firefox on Linux",
      current: false,
      signed_in_at: signedInAt.toISOString(),
      used_at: api.clock.now().toISOString(),
      ends_at: new Date(signedInAt.getTime() + 30 * 86_400_000).toISOString(),
    });
    expect(older).toMatchObject({ device: "curl", current: true });
  });

  test.each([
    ["", null],
    ["()", null],
    ["Your own browser (this browser)/1 (x)", "Your"],
    ["http://evil.example/1 (x)", "http"],
    ["x".repeat(5_000), "x".repeat(32)],
    ["<script>alert(1)</script>", null],
    [`${FIREFOX}${" ".repeat(300)}Chrome/1`, "Firefox on Linux"],
  ])("shows for the user agent %j the device %j", async (userAgent, device) => {
    const [session] = await sessionsOf(await signedIn(newEmail(), userAgent));
    expect(session?.device).toBe(device);
  });

  test("leaves out sign-ins that were ended or have expired, and those of others", async () => {
    const email = newEmail();
    const [gone, old] = [await signedIn(email), await signedIn(email)];
    await gone.post("/v1/auth/logout");
    expect(await sessionsOf(old)).toHaveLength(1);
    api.clock.advance(30 * 86_400 + 1);
    await signedIn(newEmail());
    expect(await sessionsOf(await signedIn(email))).toHaveLength(1);
  });

  test("leaves out sign-ins that a shorter SIGN_IN_DAYS has ended", async () => {
    const shorter = await startApi({ shares: api, config: { SIGN_IN_DAYS: 1 } });
    const email = newEmail();
    await signedIn(email);
    api.clock.advance(86_400);
    expect(await sessionsOf(await signedIn(email))).toHaveLength(2);
    const client = shorter.client();
    await client.signIn(email);
    const shown = await sessionsOf(client);
    await shorter.stop();
    expect(shown).toHaveLength(2);
  });

  test("shows the newest 100", async () => {
    const client = await signedIn(newEmail());
    await api.db.raw(
      `with more as (
         insert into session_families (family_id, account_id, created_at)
         select gen_random_uuid(), account_id, created_at - interval '1 day'
         from session_families, generate_series(1, 100) where family_id = :id returning *)
       insert into sessions (session_id, family_id, account_id, token_hash, refresh_hash, csrf_hash,
         created_at, expires_at, refresh_expires_at)
       select gen_random_uuid(), m.family_id, m.account_id, m.family_id::text::bytea, m.family_id::text::bytea, ''::bytea,
         m.created_at, m.created_at, s.refresh_expires_at
       from more m join sessions s on s.family_id = :id`,
      { id: (await sessionsOf(client))[0]?.session_id },
    );
    const sessions = await sessionsOf(client);
    expect(sessions).toHaveLength(100);
    expect(sessions[0]?.current).toBe(true);
  });
});

describe("ending a sign-in", () => {
  test("signs that browser out and no other, and its refresh token ends too", async () => {
    const email = newEmail();
    const [here, lost] = [await signedIn(email), await signedIn(email)];
    const [other] = (await sessionsOf(here)).filter(({ current }) => !current);
    const id = other?.session_id ?? "";
    const answer = await end(here, id);
    expect(answer).toMatchObject({ status: 200, body: { session_id: id, ended: true } });
    expect(answer.headers.getSetCookie()).toEqual([]);
    expect((await lost.get("/v1/auth/session")).status).toBe(401);
    expect((await lost.post("/v1/auth/refresh")).status).toBe(401);
    expect((await here.get("/v1/auth/session")).status).toBe(200);
  });

  test("clears the cookies if the caller ends their own", async () => {
    const client = await signedIn(newEmail());
    const [own] = await sessionsOf(client);
    const answer = await end(client, own?.session_id ?? "");
    expect(answer.headers.getSetCookie()).toHaveLength(3);
    expect(answer.headers.getSetCookie().every((cookie) => cookie.includes("Max-Age=0"))).toBe(true);
    expect((await client.get("/v1/auth/session")).status).toBe(401);
  });

  test("answers not_found for another person's, an ended and an unknown one, and ends none", async () => {
    const [victim, stranger] = [await signedIn(newEmail()), await signedIn(newEmail())];
    const [theirs] = await sessionsOf(victim);
    const email = newEmail();
    const [here, gone] = [await signedIn(email), await signedIn(email)];
    const [ended] = (await sessionsOf(here)).filter(({ current }) => !current);
    await gone.post("/v1/auth/logout");
    for (const [client, id] of [
      [stranger, theirs?.session_id],
      [here, ended?.session_id],
      [here, randomUUID()],
      [here, "nonsense"],
    ] as const) {
      expect(await end(client, String(id))).toMatchObject({
        status: 404,
        body: { error: { code: "not_found" } },
      });
    }
    expect((await victim.get("/v1/auth/session")).status).toBe(200);
  });

  test("needs the CSRF token", async () => {
    const client = await signedIn(newEmail());
    const [own] = await sessionsOf(client);
    const answer = await client.call("DELETE", `${SESSIONS}/${own?.session_id}`, { csrf: false });
    expect(answer).toMatchObject({ status: 403, body: { error: { code: "csrf_failed" } } });
  });
});
