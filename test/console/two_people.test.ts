import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApi, type TestApi } from "../support/api.ts";
import { type Browser, browserOf, formIn, type Shown, signIn } from "./support/console.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const FRIEND = "friend@example.test";

/** Creates the owners of two organizations, and a form that the first owner has opened. */
async function openedForm() {
  const owner = () => api.person({ organization_name: "Engines" });
  const [alpha, beta] = await Promise.all([owner(), owner()]);
  const browser = browserOf(api, alpha.client);
  return { alpha, beta, browser, form: await browser.open("/console/organization/invite") };
}

async function signOutIn(browser: Browser, email: string): Promise<void> {
  const page = await browser.open("/console/sign-out");
  await page.send("sign_out");
  await signIn(browser, email);
}

async function expectHeld(shown: Shown, email: string): Promise<void> {
  expect(shown.status).toBe(403);
  expect(shown.words).toContain(`You are now signed in as ${email}.`);
  expect(() => formIn(shown, "invite")).toThrow(
    /^There is no form invite on \/\S* \(\d+, ".+"\), which has /,
  );
  expect(await api.db("organization_invitations")).toEqual([]);
}

describe("a form that one person filled in", () => {
  test("cannot be sent by the next person in the same browser", async () => {
    const { beta, browser, form } = await openedForm();
    await signOutIn(browser, beta.email);
    await expectHeld(await form.send("invite", { email: FRIEND, role: "owner" }), beta.email);
  });

  test("cannot be sent by a different person who signs in after the session has expired", async () => {
    const { beta, browser, form } = await openedForm();
    api.clock.advance(31 * 24 * 60 * 60);
    const held = await form.send("invite", { email: FRIEND, role: "owner" });
    const ask = await (await held.send("renew")).send("carry");
    const code = await ask.send("send_code", { email: beta.email });
    await expectHeld(
      await code.send("verify_code", { code: await browser.client.codeFor(beta.email) }),
      beta.email,
    );
  });

  test("cannot be sent after the next person's session was renewed", async () => {
    const { beta, browser, form } = await openedForm();
    await signOutIn(browser, beta.email);
    api.clock.advance(900);
    const held = await form.send("invite", { email: FRIEND, role: "owner" });
    await expectHeld(await held.send("renew"), beta.email);
  });

  test("cannot be sent by a different person who signs in while a sign-in page keeps the form", async () => {
    const { alpha, beta, browser, form } = await openedForm();
    await (await browser.open("/console/sign-out")).send("sign_out");
    const held = await form.send("invite", { email: FRIEND, role: "owner" });
    const over = await held.send("renew");
    await signIn(browser, beta.email);
    await expectHeld(await over.send("carry"), beta.email);
    await expectHeld(await held.send("renew"), beta.email);
    await signOutIn(browser, alpha.email);
    expect(formIn(await over.send("carry"), "invite").fields.email).toBe(FRIEND);
  });
});
