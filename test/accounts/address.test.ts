import { randomUUID } from "node:crypto";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { browserOf } from "../console/support/console.ts";
import { accountCode, addressCodes, changeAddress } from "../support/account_codes.ts";
import { type Person, startApi, type TestApi } from "../support/api.ts";
import { steeredClock } from "../support/clock.ts";
import { errorCode } from "../support/platform_world.ts";

const DAY = 24 * 60 * 60;
const CODES = "/v1/auth/address/codes";
const CHANGE = "/v1/auth/address";
const UNDO = "/v1/auth/address/undo";

/** Whether the mail server refuses mails: all, or those to one address. */
let isDown: boolean | string = false;
let api: TestApi;
beforeAll(async () => {
  api = await startApi({
    clock: steeredClock(),
    mailer: (own) => ({
      ...own,
      send(mail) {
        if (isDown === true || isDown === mail.to) return Promise.reject(new Error("no mail server"));
        sentTo.push(mail.to);
        return own.send(mail);
      },
    }),
  });
});
afterAll(() => api.stop());
const sentTo: string[] = [];
let ada: Person;
beforeEach(async () => {
  ada = await api.person();
});
afterEach(() => {
  isDown = false;
});

const newEmail = () => `${randomUUID()}@example.test`;
const emailOf = async ({ accountId }: Person) =>
  (await api.db("accounts").where({ account_id: accountId }).first("email"))?.email;
const undo = (token: string) => api.client().post(UNDO, { token });

/** Returns the error code of a sign-in with this address, if it fails. */
async function signIn(email: string): Promise<string | undefined> {
  const client = api.client();
  await client.post("/v1/auth/email/send-code", { email });
  const answer = await client.post("/v1/auth/email/verify-code", {
    email,
    code: await client.codeFor(email),
  });
  return errorCode(answer) as string | undefined;
}

describe("a change of the address", () => {
  test("needs the codes of both mails, keeps this sign-in and ends all others", async () => {
    const other = api.client();
    await other.signIn(ada.email);
    const change = await changeAddress(api, ada);
    expect(change.answer).toMatchObject({ status: 200, body: { email: change.newEmail } });
    expect((await ada.client.get("/v1/auth/session")).body).toMatchObject({
      account_id: ada.accountId,
      email: change.newEmail,
    });
    expect((await other.get("/v1/auth/session")).status).toBe(401);
    expect(await api.client().signIn(change.newEmail)).toMatchObject({ account_id: ada.accountId });
  });

  test.each(["address_code", "new_address_code"])(
    "refuses a wrong %s, and the right one after five tries",
    async (name) => {
      const codes = await addressCodes(api, ada);
      const wrong = {
        ...codes,
        [name]: codes[name as "address_code"] === "00000000" ? "00000001" : "00000000",
      };
      for (let n = 0; n < 5; n += 1) {
        expect(errorCode(await ada.client.post(CHANGE, wrong))).toBe("invalid_code");
      }
      expect(errorCode(await ada.client.post(CHANGE, codes))).toBe("invalid_code");
      expect(await emailOf(ada)).toBe(ada.email);
    },
  );

  test("refuses codes of another account, used codes, replaced codes, and codes after 30 minutes", async () => {
    const [eve, codes] = [await api.person(), await addressCodes(api, ada)];
    await addressCodes(api, eve);
    expect(errorCode(await eve.client.post(CHANGE, codes))).toBe("invalid_code");
    const later = await addressCodes(api, ada);
    expect(errorCode(await ada.client.post(CHANGE, codes))).toBe("invalid_code");
    expect((await ada.client.post(CHANGE, later)).status).toBe(200);
    expect(errorCode(await ada.client.post(CHANGE, later))).toBe("invalid_code");
    const last = await addressCodes(api, eve);
    api.clock.advance(30 * 60 + 1);
    await eve.client.post("/v1/auth/refresh");
    expect(errorCode(await eve.client.post(CHANGE, last))).toBe("invalid_code");
  });

  test("does not reveal that an address has an account, except to whoever reads its mail", async () => {
    const eve = await api.person();
    const free = await ada.client.post(CODES, { email: newEmail() });
    const taken = await ada.client.post(CODES, { email: eve.email });
    expect([taken.status, taken.text]).toEqual([free.status, free.text]);
    const codes = {
      address_code: await accountCode(api, ada.email),
      new_address_code: await accountCode(api, eve.email),
    };
    expect(errorCode(await ada.client.post(CHANGE, codes))).toBe("address_taken");
    expect(await emailOf(ada)).toBe(ada.email);
  });

  test("changes nothing if the mail to the former address cannot be sent", async () => {
    const codes = await addressCodes(api, ada);
    isDown = true;
    expect(errorCode(await ada.client.post(CHANGE, codes))).toBe("unavailable");
    expect(await emailOf(ada)).toBe(ada.email);
    isDown = false;
    expect((await ada.client.post(CHANGE, codes)).status).toBe(200);
  });

  test("mails nothing to the new address if the present address refuses its mail", async () => {
    const email = newEmail();
    isDown = ada.email;
    expect(errorCode(await ada.client.post(CODES, { email }))).toBe("unavailable");
    expect(sentTo).not.toContain(email);
  });

  test("mails at most five sets of codes of an account in a day", async () => {
    for (let n = 0; n < 5; n += 1) await ada.client.post(CODES, { email: newEmail() });
    expect(errorCode(await ada.client.post(CODES, { email: newEmail() }))).toBe("action_limited");
  });

  test("mails at most ten codes to a new address in a day, for all accounts together", async () => {
    const email = newEmail();
    for (let n = 0; n < 10; n += 1) {
      if (n % 5 === 0) ada = await api.person();
      expect((await ada.client.post(CODES, { email })).status).toBe(200);
    }
    const next = await api.person();
    expect(errorCode(await next.client.post(CODES, { email }))).toBe("action_limited");
    expect((await next.client.post(CODES, { email: newEmail() })).status).toBe(200);
  });
});

describe("a former address", () => {
  test("opens no other account for seven days, and does afterwards", async () => {
    const { newEmail: now } = await changeAddress(api, ada);
    const eve = await api.person();
    expect(await signIn(ada.email)).toBe("address_taken");
    expect(errorCode((await changeAddress(api, eve, ada.email)).answer)).toBe("address_taken");
    expect(await signIn(now)).toBeUndefined();
    api.clock.advance(7 * DAY);
    expect(await api.client().signIn(ada.email)).not.toMatchObject({ account_id: ada.accountId });
  });

  test("returns with the link of its mail, once, and ends every sign-in", async () => {
    const change = await changeAddress(api, ada);
    const token = await change.undo();
    expect(await undo(token)).toMatchObject({ status: 200, body: { email: ada.email } });
    expect((await ada.client.get("/v1/auth/session")).status).toBe(401);
    expect(await api.client().signIn(ada.email)).toMatchObject({ account_id: ada.accountId });
    expect(errorCode(await undo(token))).toBe("invalid_code");
    expect(await api.client().signIn(change.newEmail)).not.toMatchObject({ account_id: ada.accountId });
  });

  test("does not return after seven days, or with an unknown token", async () => {
    const token = await (await changeAddress(api, ada)).undo();
    expect(errorCode(await undo("0".repeat(64)))).toBe("invalid_code");
    api.clock.advance(7 * DAY);
    expect(errorCode(await undo(token))).toBe("invalid_code");
  });

  test("returns although a thief changes the address again and undoes the second change", async () => {
    const first = await changeAddress(api, ada);
    const token = await first.undo();
    api.clock.advance(60);
    const thief = { ...ada, email: first.newEmail };
    const second = await changeAddress(api, thief);
    const thiefs = await second.undo();
    expect(await undo(thiefs)).toMatchObject({ status: 200, body: { email: first.newEmail } });
    expect(await undo(token)).toMatchObject({ status: 200, body: { email: ada.email } });
    expect(errorCode(await undo(thiefs))).toBe("invalid_code");
    expect(await emailOf(ada)).toBe(ada.email);
  });

  test("cannot return to a thief after its owner put an earlier address back", async () => {
    const first = await changeAddress(api, ada);
    const token = await first.undo();
    const second = await changeAddress(api, { ...ada, email: first.newEmail });
    const thiefs = await second.undo();
    expect((await undo(token)).status).toBe(200);
    expect(errorCode(await undo(thiefs))).toBe("invalid_code");
    expect(await emailOf(ada)).toBe(ada.email);
  });

  test("remains free for its own account", async () => {
    const { newEmail: second } = await changeAddress(api, ada);
    const back = await changeAddress(api, { ...ada, email: second }, ada.email);
    expect(back.answer).toMatchObject({ status: 200, body: { email: ada.email } });
  });
});

test("a person changes their address on the pages of the console, and puts it back", async () => {
  const email = newEmail();
  const ask = await browserOf(api, ada.client).open("/console/account/address");
  const enter = await ask.send("send_codes", { email });
  const code = await accountCode(api, email);
  await ask.send("send_codes", { email });
  expect(await accountCode(api, email)).toBe(code);
  expect(enter.words).toContain(`We sent a code to ${email}`);
  const again = await enter.send("change", { address_code: "1", new_address_code: "12345678" });
  expect(again.words).toContain("A code has eight digits");
  const codes = {
    address_code: await accountCode(api, ada.email),
    new_address_code: await accountCode(api, email),
  };
  const done = await again.send("change", codes);
  expect(done.path).toBe("/console/account?notice=address_changed");
  expect(done.words).toContain(email);
  const { body } = await api.client().get("/dev/mailbox", { headers: { accept: "application/json" } });
  const mails = body.mails as { to: string; text: string }[];
  const [, token = ""] =
    mails
      .filter(({ to }) => to === ada.email)
      .map(({ text }) => /\/console\/address\/undo#code=([0-9a-f]{64})/.exec(text))
      .find((found) => found) ?? [];
  const page = await browserOf(api).open("/console/address/undo");
  expect((await page.send("undo", { token })).words).toContain(`Sign in with ${ada.email}`);
  expect(await emailOf(ada)).toBe(ada.email);
});
