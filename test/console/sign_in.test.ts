import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ENTER_CODE, RENEW, SIGN_IN } from "../../src/console/core/places.ts";
import { startApi, type TestApi } from "../support/api.ts";
import { XSS_CORPUS } from "../support/xss_corpus.ts";
import { browserOf, formIn, markupOf, type Shown, signIn } from "./support/console.ts";

let api: TestApi;
let people = 0;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

function newEmail(): string {
  people += 1;
  return `person-${people}@example.test`;
}

async function onboarded() {
  const person = await api.person();
  return { ...person, browser: browserOf(api, person.client) };
}

describe("the sign-up", () => {
  test("leads from the console through a code, a name and an account type to the home page", async () => {
    const browser = browserOf(api);
    const email = newEmail();
    const asked = await browser.open("/console");
    expect(asked.path).toBe(`${SIGN_IN}?return_to=%2Fconsole`);
    const code = await asked.send("send_code", { email });
    expect(code.words).toContain(`We sent a code to ${email}`);
    expect(code.text).toMatch(
      /<input id="verify_code-code"[^>]* autocomplete="one-time-code" inputmode="numeric"/,
    );
    const name = await code.send("verify_code", { code: await browser.client.codeFor(email) });
    expect(name.path).toBe("/console/welcome/name");
    const account = await name.send("profile", { first_name: "Ada", last_name: "Lovelace" });
    expect(account.path).toBe("/console/welcome/account");
    const home = await account.send("account", { account_type: "individual" });
    expect([home.path, home.status]).toEqual(["/console?notice=welcome", 200]);
    expect(home.words).toContain("Your account is ready.");
    const { body } = await browser.client.get("/v1/auth/session");
    expect(body).toMatchObject({ email, first_name: "Ada", account_type: "individual" });
  });

  test("accepts a pasted code with spaces and hyphens", async () => {
    const browser = browserOf(api);
    const email = newEmail();
    const asked = await (await browser.open(SIGN_IN)).send("send_code", { email });
    const code = await browser.client.codeFor(email);
    const name = await asked.send("verify_code", { code: ` ${code.slice(0, 3)}-${code.slice(3)} ` });
    expect(name.path).toBe("/console/welcome/name");
  });

  test("shows errors at their fields, and keeps the entered values", async () => {
    const browser = browserOf(api);
    const email = newEmail();
    const refused = await (await browser.open(SIGN_IN)).send("send_code", { email: "no address" });
    expect([refused.status, formIn(refused, "send_code").fields.email]).toEqual([400, "no address"]);
    expect(refused.text).toMatch(/<p class="fault" id="send_code-email-fault">[^<]+<\/p>/);
    expect(refused.text).toMatch(/aria-invalid="true" aria-describedby="[^"]*send_code-email-fault"/);
    const asked = await refused.send("send_code", { email });
    const wrong = await asked.send("verify_code", { code: "000000" });
    expect([wrong.status, formIn(wrong, "verify_code").fields.email]).toEqual([400, email]);
    expect(wrong.words).toContain("The code is wrong");
    const name = await wrong.send("verify_code", { code: await browser.client.codeFor(email) });
    const nameless = await name.send("profile", { first_name: "Ada", last_name: " " });
    expect(formIn(nameless, "profile").fields).toMatchObject({ first_name: "Ada", last_name: " " });
    expect(nameless.text).toContain('id="profile-last_name-fault"');
    expect(nameless.text).not.toContain('id="profile-first_name-fault"');
  });

  test("asks for the account type without a default, because the type cannot be changed later", async () => {
    const browser = browserOf(api);
    const name = await signIn(browser, newEmail());
    const page = await name.send("profile", { first_name: "Ada", last_name: "Lovelace" });
    expect(formIn(page, "account").fields).not.toHaveProperty("account_type");
    const faultOf = ({ text }: Shown, field: string) =>
      new RegExp(`id="account-${field}-fault">([^<]*)<`).exec(text)?.[1];
    const unchosen = await page.send("account");
    expect([unchosen.status, faultOf(unchosen, "account_type")]).toEqual([
      400,
      "Choose for whom the account is.",
    ]);
    const unclear = { account_type: "individual", organization_name: "My Company Ltd" };
    const asked = await unchosen.send("account", unclear);
    expect([asked.status, faultOf(asked, "account_type")]).toEqual([
      ...[400, expect.stringContaining("You named an organization.")],
    ]);
    expect(formIn(asked, "account").fields).toMatchObject(unclear);
    const nameless = await asked.send("account", { account_type: "organization", organization_name: " " });
    expect([nameless.status, faultOf(nameless, "organization_name")]).toEqual([400, "Is missing."]);
    await asked.send("account", { account_type: "organization" });
    const { body } = await browser.client.get("/v1/auth/session");
    expect(body).toMatchObject({ account_type: "organization" });
    const { body: organization } = await browser.client.get("/v1/service/organization");
    expect(organization).toMatchObject({ organization_name: "My Company Ltd" });
  });

  test("leads to the next step if a form is sent twice at the same time", async () => {
    const browser = browserOf(api);
    const name = await signIn(browser, newEmail());
    const [one, two] = await Promise.all(
      [1, 2].map(() => name.send("profile", { first_name: "A", last_name: "B" })),
    );
    expect([one?.path, two?.path]).toEqual(["/console/welcome/account", "/console/welcome/account"]);
  });

  test("continues after a step that a second tab completed at the same time", async () => {
    const browser = browserOf(api);
    const tabs = [await signIn(browser, newEmail()), await browser.open("/console/welcome/name")];
    const profile = { first_name: "A", last_name: "B" };
    const named = await Promise.all(tabs.map((tab) => tab.send("profile", profile)));
    expect(named.map(({ path }) => path)).toEqual(Array(2).fill("/console/welcome/account"));
    const again = [await browser.open("/console/welcome/account"), ...named];
    const ended = await Promise.all(again.map((tab) => tab.send("account", { account_type: "individual" })));
    expect(ended.map(({ path }) => path)).toEqual(Array(3).fill("/console?notice=welcome"));
  });

  test("applies the same rate limits as the API", async () => {
    const limited = await startApi({ config: { SEND_CODE_PER_IP: 1 } });
    const browser = browserOf(limited);
    await (await browser.open(SIGN_IN)).send("send_code", { email: newEmail() });
    const refused = await (await browser.open(SIGN_IN)).send("send_code", { email: newEmail() });
    expect(refused.status).toBe(429);
    expect(refused.words).toMatch(/try again in 15 min/);
    await limited.stop();
  });

  test.each(XSS_CORPUS)("escapes the entered text %j", async (text) => {
    const shown = await (await browserOf(api).open(SIGN_IN)).send("send_code", { email: text });
    expect(formIn(shown, "send_code").fields.email).toBe(new URLSearchParams({ text }).get("text"));
    const plain = await (await browserOf(api).open(SIGN_IN)).send("send_code", { email: "text" });
    expect(markupOf(shown.text)).toEqual(markupOf(plain.text));
    const [code, plainCode] = await Promise.all(
      [text, "text"].map((email) =>
        browserOf(api).open(`${ENTER_CODE}?${new URLSearchParams({ email, notice: email })}`),
      ),
    );
    expect(markupOf(code?.text ?? "")).toEqual(markupOf(plainCode?.text ?? "no page"));
    expect(code?.words).toContain(plainCode?.words.split("text")[0]);
  });
});

describe("a form of the console", () => {
  const elsewhere: Record<string, string>[] = [
    { origin: "https://attacker.example" },
    { origin: "null" },
    { origin: "" },
    { origin: "http://127.0.0.1", "sec-fetch-site": "cross-site" },
    { origin: "http://127.0.0.1", "sec-fetch-site": "same-site" },
  ];

  test.each(elsewhere)("causes an error when another site submits it: %j", async (headers) => {
    const { browser, client } = await onboarded();
    const home = await browser.open("/console");
    const refused = await home.send("sign_out", {}, headers);
    expect([refused.status, refused.words]).toEqual([
      403,
      expect.stringContaining("This form was not sent from this site"),
    ]);
    const asked = await (await browserOf(api).open(SIGN_IN)).send(
      "send_code",
      { email: newEmail() },
      headers,
    );
    expect(asked.status).toBe(403);
    expect((await client.get("/v1/auth/session")).status).toBe(200);
  });

  test("has no effect if its token belongs to a different session, until the person sends the form again", async () => {
    const { browser, client } = await onboarded();
    const page = await browser.open("/console/sign-out");
    const held = await page.send("sign_out", { csrf: "x".repeat(43), where: "everywhere" });
    expect(held.words).toContain("Send it again?");
    expect((await client.get("/v1/auth/session")).status).toBe(200);
    expect(formIn(held, "sign_out").fields).toMatchObject({ where: "everywhere" });
    expect((await held.send("sign_out")).words).toContain("You are signed out.");
    expect((await client.get("/v1/auth/session")).status).toBe(401);
  });

  test("cannot sign in a browser with a code that a different browser requested", async () => {
    const attacker = browserOf(api);
    const email = newEmail();
    const asked = await (await attacker.open(SIGN_IN)).send("send_code", { email });
    const { fields } = formIn(asked, "verify_code");
    const victim = browserOf(api);
    const page = await victim.open(ENTER_CODE);
    const code = await attacker.client.codeFor(email);
    const refused = await page.send("verify_code", { ...fields, code });
    expect(refused.status).toBe(403);
    expect(refused.words).toContain("Your browser did not send back the cookie of this page");
    expect(victim.client.cookie("service_session")).toBeUndefined();
  });

  test("cannot be sent with a content type or content that no page of the console sends", async () => {
    const { client } = await onboarded();
    for (const [type, body] of [
      ["application/json", "{}"],
      ["text/plain", "form=sign_out"],
      ["application/x-www-form-urlencoded", "form=constructor"],
      ["application/x-www-form-urlencoded", "form=sign_out&where=%00"],
    ] as const) {
      const headers = { "content-type": type, origin: "http://127.0.0.1" };
      const answer = await client.call("POST", "/console/sign-out", { body, headers, csrf: false });
      expect([type, body, answer.status]).toEqual([type, body, 400]);
    }
    const answer = await client.call("DELETE", "/console");
    expect([answer.status, answer.headers.get("allow")]).toEqual([405, "GET, HEAD, POST"]);
  });
});

describe("a session", () => {
  test("gets a new token after a sign-in, whatever cookies the browser sent", async () => {
    const browser = browserOf(api);
    const planted = "p".repeat(43);
    browser.client.setCookie("service_session", planted);
    browser.client.setCookie("service_csrf", planted);
    await signIn(browser, newEmail());
    expect(browser.client.cookie("service_session")).not.toBe(planted);
    expect(browser.client.cookie("service_csrf")).not.toBe(planted);
    expect((await browser.client.get("/v1/auth/session")).status).toBe(200);
  });

  test("can be renewed after it has expired, and leads back to the same page", async () => {
    const { browser } = await onboarded();
    api.clock.advance(900);
    const ended = await browser.open("/console/sign-out?a=b");
    expect(ended.path).toBe(`${RENEW}?return_to=%2Fconsole%2Fsign-out%3Fa%3Db`);
    expect(ended.text).toMatch(/<form [^>]*data-at-once/);
    const back = await ended.send("renew");
    expect([back.path, back.status]).toEqual(["/console/sign-out?a=b&notice=renewed", 200]);
  });

  test("keeps all fields of a form that is sent after the session has expired", async () => {
    const { browser, client } = await onboarded();
    const page = await browser.open("/console/sign-out");
    api.clock.advance(900);
    const held = await page.send("sign_out", { where: "everywhere" });
    expect(held.words).toContain("What you entered is kept");
    const again = await held.send("renew");
    expect(again.words).toContain("Send it again?");
    expect((await client.get("/v1/auth/session")).status).toBe(200);
    expect((await again.send("sign_out")).words).toContain("You are signed out.");
    expect((await client.get("/v1/auth/session")).status).toBe(401);
  });

  test("keeps a form until after the next sign-in if the session cannot be renewed", async () => {
    const { browser, client, email } = await onboarded();
    const page = await browser.open("/console/sign-out");
    api.clock.advance(31 * 24 * 60 * 60);
    const held = await page.send("sign_out", { where: "everywhere" });
    const over = await held.send("renew");
    const ask = await over.send("carry");
    expect(ask.status).toBe(200);
    const code = await ask.send("send_code", { email });
    const again = await code.send("verify_code", { code: await client.codeFor(email) });
    expect(again.words).toContain("Send it again?");
    expect(formIn(again, "sign_out").fields.where).toBe("everywhere");
    expect((await again.send("sign_out")).words).toContain("You are signed out.");
  });

  test.each([
    "https://attacker.example/",
    "//attacker.example/",
    "/\\attacker.example/",
    "/console//attacker.example",
    "/console/../v1/auth/session",
    "/console/%2e%2e/v1/auth/session",
    "/console/%2F%2Fattacker.example",
    "/consolefake",
    "/v1/auth/session",
    "javascript:alert(1)",
    "/console\r\nset-cookie: a=b",
    "/console?a=b#c",
    `/console/${"a".repeat(6_001)}`,
  ])("leads after its start or renewal only to pages of the console, not to %j", async (asked) => {
    const { browser } = await onboarded();
    api.clock.advance(900);
    const renew = await browser.open(`${RENEW}?${new URLSearchParams({ return_to: asked })}`);
    expect((await renew.send("renew", { return_to: asked })).path).toBe("/console?notice=renewed");
    expect((await browser.open(`${SIGN_IN}?${new URLSearchParams({ return_to: asked })}`)).path).toBe(
      "/console",
    );
  });

  test("sends a kept form only to pages of the console", async () => {
    const { browser } = await onboarded();
    api.clock.advance(900);
    for (const path of ["https://attacker.example/", "/v1/auth/logout", "//attacker.example"]) {
      const renew = await browser.open(RENEW);
      const kept = JSON.stringify({ path, fields: [["a", "b"]] });
      expect((await renew.send("renew", { kept })).path).toBe("/console?notice=renewed");
      api.clock.advance(900);
    }
  });
});
