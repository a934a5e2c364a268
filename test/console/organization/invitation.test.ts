import { afterAll, beforeAll, expect, test } from "vitest";
import { createMailer } from "../../../src/accounts/mail/mail.ts";
import { SIGN_IN } from "../../../src/console/core/places.ts";
import { texts } from "../../../src/console/texts/texts.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { mailSettings, type SmtpReceiver, startSmtp } from "../../support/smtp.ts";
import { browserOf, type Shown } from "../support/console.ts";
import { organizationOf } from "./organization.ts";

let smtp: SmtpReceiver;
let api: TestApi;
let plain: TestApi;
beforeAll(async () => {
  smtp = await startSmtp();
  plain = await startApi();
  api = await startApi({ mailer: () => createMailer(mailSettings(smtp.url), plain).mailer });
});
afterAll(async () => {
  await Promise.all([api.stop(), plain.stop()]);
  await smtp.stop();
});

function mailTo(email: string): string {
  const { raw = "" } = smtp.mails.findLast(({ to }) => to.includes(email)) ?? {};
  const text = raw.slice(raw.indexOf("\r\n\r\n") + 4).replaceAll("=\r\n", "");
  const bytes = text.replaceAll(/=([0-9A-F]{2})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 16)),
  );
  return Buffer.from(bytes, "latin1").toString().replaceAll("\r\n", "\n");
}

async function signUp(from: Shown, email: string, organization?: string): Promise<Shown> {
  const asked = await from.send("send_code", { email });
  const code = /\b[0-9]{6}\b/.exec(mailTo(email))?.[0] ?? "";
  const named = await (await asked.send("verify_code", { code })).send("profile", {
    first_name: email.startsWith("grace") ? "Grace" : "Ada",
    last_name: "Hopper",
  });
  const type =
    organization === undefined
      ? { account_type: "individual" }
      : { account_type: "organization", organization_name: organization };
  return named.send("account", type);
}

test("a person without an account can follow the invitation email up to the first action that the role allows", async () => {
  const owner = browserOf(api);
  await signUp(await owner.open(SIGN_IN), "owner@example.test", "Analytical Engines");
  const invite = await owner.open("/console/organization/invite");
  const wrong = await invite.send("invite", { email: "nobody", role: "developer" });
  expect([wrong.status, wrong.words]).toEqual([400, expect.stringContaining("Check the address")]);
  const sent = await invite.send("invite", { email: " Grace@Example.test ", role: "developer" });
  expect(sent.words).toContain("The invitation was sent.");
  expect(sent.words).toContain("grace@example.test developer owner@example.test");

  const mail = mailTo("grace@example.test");
  expect(mail).toContain("owner@example.test invites you to act for the organization “Analytical Engines”");
  const [, path = "", code = ""] =
    /\nhttp:\/\/127\.0\.0\.1(\/console\/\S*)#code=([0-9a-f]{64})\n/.exec(mail) ?? [];
  expect(mail).toContain(`\n\n${code}\n\n`);

  const invited = browserOf(api);
  const signedOut = await invited.open(path);
  expect(signedOut.path).toBe(`${SIGN_IN}?return_to=%2Fconsole%2Finvitations%2Faccept`);
  const accept = await signUp(signedOut, "grace@example.test");
  expect(accept.path).toBe(`${path}?notice=welcome`);
  const found = await accept.send("look", { token: ` ${code.toUpperCase()} ` });
  expect(found.words).toContain("Act for Analytical Engines?");
  expect(found.words).toContain(`As developer You will be able to ${texts.acting.roleHints.developer}`);
  expect((await owner.open("/console/organization")).words).not.toContain("Grace Hopper");
  const joined = await found.send("accept");
  expect(joined.path).toMatch(/^\/console\/for\/[0-9a-f-]{36}\/organization\?notice=joined$/);
  expect(joined.words).toContain("Acting for Analytical Engines , developer");
  expect((await owner.open("/console/organization")).words).toContain(
    "Grace Hopper grace@example.test developer",
  );

  const again = await (await invited.open(path)).send("look", { token: code });
  expect([again.status, again.text]).toEqual([400, expect.stringContaining('id="look-token-fault"')]);
  const twice = await found.send("accept", { key: "another" });
  expect([twice.status, twice.words]).toEqual([400, expect.stringContaining("The code is wrong, was used")]);
});

test("an invitation code works only for the invited address, and does not reveal the organization to anyone else", async () => {
  const owner = browserOf(api);
  await signUp(await owner.open(SIGN_IN), "second@example.test", "Secret Society");
  await (await owner.open("/console/organization/invite")).send("invite", {
    email: "third@example.test",
    role: "owner",
  });
  const code = /#code=([0-9a-f]{64})\n/.exec(mailTo("third@example.test"))?.[1] ?? "";
  const other = browserOf(api);
  await signUp(await other.open(SIGN_IN), "fourth@example.test");
  const accept = await other.open("/console/invitations/accept");
  for (const token of [code, "0".repeat(64), ""]) {
    const shown = await accept.send("look", { token });
    expect([shown.status, shown.words]).toEqual([
      400,
      expect.stringContaining("The code is wrong, was used"),
    ]);
    expect(shown.words).not.toContain("Secret Society");
  }
});

test("an email that could not be sent is reported next to the address, and nobody is invited", async () => {
  const { open, ids } = await organizationOf(plain);
  const owner = browserOf(api);
  await signUp(await owner.open(SIGN_IN), "fifth@example.test", "Engines");
  smtp.behave("reject");
  const page = await owner.open("/console/organization/invite");
  const shown = await page.send("invite", { email: "sixth@example.test", role: "auditor" });
  smtp.behave("take");
  expect([shown.status, shown.text]).toEqual([503, expect.stringContaining('id="invite-email-fault"')]);
  expect(shown.text).toMatch(/value="auditor" checked/);
  expect((await owner.open("/console/organization")).words).toContain("No invitation waits.");
  const known = await (await open("/console/organization/invite")).send("invite", {
    email: `${String(ids.organization).slice(-12)}@example.test`,
    role: "owner",
  });
  expect(known.words).toContain("The invitation was sent.");
});
