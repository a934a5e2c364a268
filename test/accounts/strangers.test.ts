import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createCodeHashes } from "../../src/accounts/sign_in/codes.ts";
import { planMail, planNotice } from "../../src/accounts/sign_in/sign_in_mails.ts";
import { startApi, type TestApi } from "../support/api.ts";
import type { HttpClient } from "../support/http.ts";

const SEND = "/v1/auth/email/send-code";
const VERIFY = "/v1/auth/email/verify-code";
const COOKIE = "service_sign_in";

let api: TestApi;
let replica: TestApi;
beforeAll(async () => {
  const options = { config: { SEND_CODE_PER_ADDRESS: 3, SEND_CODE_PER_DAY: 12 } };
  api = await startApi(options);
  replica = await startApi({ ...options, shares: api });
});
afterAll(async () => {
  await replica.stop();
  await api.stop();
});

let count = 0;
const fresh = () => `owner${++count}@example.com`;
const send = (client: HttpClient, email: string) => client.post(SEND, { email });
const verify = (client: HttpClient, email: string, code: string) => client.post(VERIFY, { email, code });

async function mailsTo(email: string): Promise<{ subject: string; text: string }[]> {
  const { body } = await api.client().get("/dev/mailbox", { headers: { accept: "application/json" } });
  return (body.mails as { to: string; subject: string; text: string }[]).filter(({ to }) => to === email);
}

/** Returns an address's newest code: six digits or a link code. */
async function newestCode(email: string): Promise<string> {
  const [mail] = (await mailsTo(email)).filter(({ subject }) => subject.startsWith("Your sign-in"));
  return /\b([0-9]{6}|[0-9a-f]{32})\b/.exec(mail?.text ?? "")?.[0] ?? "";
}

const wrong = (code: string) => (code === "000000" ? "000001" : "000000");

/** Requests `times` codes, each as a new client. Then tries `tries` wrong codes without a cookie. */
async function attack(email: string, { times = 3, tries = 5 } = {}): Promise<void> {
  for (let n = 0; n < times; n += 1) await send(api.client(), email);
  const code = await newestCode(email);
  for (let n = 0; n < tries; n += 1) await verify(api.client(), email, wrong(code));
}

describe("an attacker who requests codes for an address and tries wrong codes", () => {
  test("neither replaces nor uses up the code that a browser received before", async () => {
    const [owner, email] = [api.client(), fresh()];
    await send(owner, email);
    const code = await newestCode(email);
    await attack(email);
    expect((await verify(owner, email, code)).status).toBe(200);
  });

  test("does not prevent the owner from signing in later, in a new browser or without a cookie", async () => {
    for (const verifier of ["same", "plain"] as const) {
      const [owner, email] = [api.client(), fresh()];
      await attack(email, { times: 6 });
      expect(await send(owner, email)).toMatchObject({ status: 200, body: { status: "code_sent" } });
      const code = await newestCode(email);
      await attack(email);
      expect(
        (await verify(verifier === "same" ? owner : api.client(), email, code)).status,
        `${verifier}: ${code}`,
      ).toBe(200);
    }
  });

  test("does not replace the browser's next code, and the browser does not replace the attacker's code", async () => {
    const [owner, email] = [api.client(), fresh()];
    await send(owner, email);
    await send(api.client(), email);
    const strangers = await newestCode(email);
    expect((await send(owner, email)).body).toEqual({ status: "code_sent", resent: true });
    const second = await newestCode(email);
    expect((await verify(owner, email, second)).status).toBe(200);
    expect((await verify(api.client(), email, strangers)).status).toBe(200);
  });

  test("cannot use the browser's code without the browser's cookie, even after requesting a code", async () => {
    const [owner, email] = [api.client(), fresh()];
    await send(owner, email);
    const code = await newestCode(email);
    await send(api.client(), email);
    if (code !== (await newestCode(email))) {
      expect((await verify(api.client(), email, code)).status).toBe(400);
      const other = api.client();
      await send(other, fresh());
      expect(other.cookie(COOKIE)).not.toBe(owner.cookie(COOKIE));
      expect((await verify(other, email, code)).status).toBe(400);
    }
  });

  test("causes at most twelve emails with six-digit codes a day, then one with a link code every half hour", async () => {
    const email = fresh();
    for (let n = 0; n < 24 * 6; n += 1) {
      await send(api.client(), email);
      api.clock.advance(600);
    }
    const mails = await mailsTo(email);
    const digits = mails.filter(({ text }) => /\b\d{6}\b/.test(text));
    expect(digits).toHaveLength(12);
    expect(mails.length - digits.length).toBeLessThanOrEqual(48);
    expect(mails.length - digits.length).toBeGreaterThanOrEqual(40);
  }, 120_000);

  test("has 30 tries a day and 75 in 30 days, with any number of browsers and codes", async () => {
    const email = fresh();
    const triesOfDays: number[] = [];
    for (let day = 0; day < 5; day += 1) {
      const before = await triesOf(email);
      for (let n = 0; n < 6; n += 1) {
        const client = n % 2 === 0 ? api.client() : replica.client();
        await send(client, email);
        const code = await newestCode(email);
        if (code.length > 6) break;
        await Promise.all(
          Array.from({ length: 14 }, (_, n) =>
            verify(n % 2 === 0 ? client : api.client(), email, wrong(code)),
          ),
        );
        api.clock.advance(601);
      }
      triesOfDays.push((await triesOf(email)) - before);
      api.clock.advance(86_400);
    }
    expect(Math.max(...triesOfDays)).toBe(30);
    expect(await triesOf(email)).toBeGreaterThan(60);
    expect(await triesOf(email)).toBeLessThanOrEqual(75);
  }, 120_000);

  test("gets no additional tries from codes that are valid at the same time, with and without a cookie", async () => {
    const [email, anonymous] = [fresh(), api.client()];
    const browsers = Array.from({ length: 8 }, (_, n) => {
      const browser = api.client();
      browser.setCookie(COOKIE, `${n}`.repeat(43));
      return browser;
    });
    for (const client of [anonymous, ...browsers]) await send(client, email);
    const codes = new Set((await mailsTo(email)).map(({ text }) => /\b\d{6}\b/.exec(text)?.[0]));
    const guess = Array.from({ length: 10 }, (_, n) => `00000${n}`).find((code) => !codes.has(code)) ?? "";
    for (const client of [anonymous, ...browsers, api.client()]) {
      for (let n = 0; n < 6; n += 1) await verify(client, email, guess);
    }
    expect(await triesOf(email)).toBe(30);
  });

  test("gets one guess from a try that is compared with two codes, because it counts against both", async () => {
    const [browser, email] = [api.client(), fresh()];
    const codes: string[] = [];
    for (let n = 0; n < 2; n += 1) {
      await send(browser, email);
      codes.push(await newestCode(email));
    }
    const guess =
      Array.from({ length: 3 }, (_, n) => `00000${n}`).find((code) => !codes.includes(code)) ?? "";
    for (let n = 0; n < 5; n += 1) expect((await verify(browser, email, guess)).status).toBe(400);
    expect(await triesOf(email)).toBe(10);
    for (const code of codes) expect((await verify(browser, email, code)).status).toBe(400);
  });

  async function triesOf(email: string): Promise<number> {
    const row = await api
      .db("sign_in_mails")
      .where("email_hash", createCodeHashes(api.sealingKey).address(email))
      .sum<{ own: string; shared: string }[]>({ own: "own_tries", shared: "shared_tries" })
      .first();
    return Number(row?.own ?? 0) + Number(row?.shared ?? 0);
  }
});

describe("the link code", () => {
  async function underAttack(): Promise<{ email: string; code: string }> {
    const email = fresh();
    await attack(email, { times: 4, tries: 0 });
    const code = await newestCode(email);
    expect(code).toMatch(/^[0-9a-f]{32}$/);
    return { email, code };
  }

  test("signs in once, from any browser, and wrong codes do not use it up", async () => {
    const { email, code } = await underAttack();
    for (let n = 0; n < 40; n += 1) await verify(api.client(), email, code.replaceAll(/./g, "0"));
    expect((await verify(api.client(), "else@example.com", code)).status).toBe(400);
    expect((await verify(api.client(), email, code)).status).toBe(200);
    expect(await verify(api.client(), email, code)).toMatchObject({
      status: 400,
      body: { error: { code: "invalid_code" } },
    });
  });

  test("works for an hour", async () => {
    const [one, two] = [await underAttack(), await underAttack()];
    api.clock.advance(3600);
    expect((await verify(api.client(), one.email, one.code)).status).toBe(200);
    api.clock.advance(0.001);
    expect((await verify(api.client(), two.email, two.code)).status).toBe(400);
  });

  test("prevents further emails for half an hour unless it is used, and requests get the same answer meanwhile", async () => {
    const { email, code } = await underAttack();
    const mails = (await mailsTo(email)).length;
    const answer = await send(api.client(), email);
    expect(answer).toMatchObject({ status: 200, text: '{"status":"code_sent","resent":false}' });
    expect((await mailsTo(email)).length).toBe(mails);
    await verify(api.client(), email, code);
    await send(api.client(), email);
    expect(await newestCode(email)).not.toBe(code);
  });

  test("prevents further emails for only a minute if its own email was never sent", async () => {
    const email = fresh();
    await attack(email, { times: 3, tries: 0 });
    const planned = await planMail(
      api.db,
      {
        email,
        client: { cookie: "of a process that ended", anonymous: true },
        hashes: createCodeHashes(api.sealingKey),
        bounds: { perClient: 3, perDay: 12 },
      },
      api.clock.now(),
    );
    expect(planned?.kind).toBe("link");
    const { length } = await mailsTo(email);
    api.clock.advance(59.999);
    await send(api.client(), email);
    expect(await mailsTo(email)).toHaveLength(length);
    api.clock.advance(0.001);
    await send(api.client(), email);
    expect(await newestCode(email)).toMatch(/^[0-9a-f]{32}$/);
    expect(await mailsTo(email)).toHaveLength(length + 1);
  });

  test("stops being sent after the attack, and the next code has six digits", async () => {
    const { email } = await underAttack();
    api.clock.advance(86_401);
    await send(api.client(), email);
    expect(await newestCode(email)).toMatch(/^\d{6}$/);
  });

  test("arrives in a link to the console or to the configured sign-in page, after #", async () => {
    const { email, code } = await underAttack();
    expect((await mailsTo(email))[0]?.text).toContain(
      `http://127.0.0.1/v1/auth/email/console/code#code=${code}`,
    );
    const linked = await startApi({
      config: { SEND_CODE_PER_ADDRESS: 0, SIGN_IN_URL: "https://console.example.com/sign-in" },
    });
    await linked.client().post(SEND, { email: "ada@example.com" });
    const { body } = await linked.client().get("/dev/mailbox", { headers: { accept: "application/json" } });
    await linked.stop();
    const [mail] = body.mails as { text: string }[];
    const long = /^[0-9a-f]{32}$/m.exec(mail?.text ?? "")?.[0] ?? "none";
    expect(mail?.text).toContain(`https://console.example.com/sign-in#code=${long}`);
    expect(long).not.toBe(code);
  });
});

describe("used codes", () => {
  test("do not count toward the limit of codes, so a person who signs in always receives six digits", async () => {
    const email = fresh();
    for (let n = 0; n < 16; n += 1) {
      const client = api.client();
      await send(client, email);
      const code = await newestCode(email);
      expect(code).toMatch(/^\d{6}$/);
      expect((await verify(n % 2 === 0 ? client : api.client(), email, code)).status).toBe(200);
    }
  });
});

describe("the sign-in cookie", () => {
  test("goes only to the calls about codes, lasts 30 days, and stays the same", async () => {
    const [client, email] = [api.client(), fresh()];
    const answer = await send(client, email);
    const [set = "", ...more] = answer.headers.getSetCookie();
    expect(more).toEqual([]);
    expect(set).toMatch(/^service_sign_in=[A-Za-z0-9_-]{43}; /);
    expect(set.split("; ").slice(1).sort()).toEqual([
      "HttpOnly",
      "Max-Age=2592000",
      "Path=/v1/auth/email",
      "SameSite=Lax",
    ]);
    const value = client.cookie(COOKIE);
    await send(client, email);
    expect(client.cookie(COOKIE)).toBe(value);
    const { rows } = await api.db.raw("select string_agg(m::text, ' ') as text from sign_in_mails m");
    expect(rows[0].text).not.toContain(value);
    expect(rows[0].text).not.toContain(Buffer.from(value ?? "").toString("hex"));
  });

  test.each(["", "short", "x".repeat(44), "%%%"])("gets replaced if its value is %j", async (value) => {
    const client = api.client();
    client.setCookie(COOKIE, value);
    const email = fresh();
    await send(client, email);
    expect(client.cookie(COOKIE)).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect((await verify(api.client(), email, await newestCode(email))).status).toBe(200);
  });
});

describe("repeated wrong codes", () => {
  const notices = async (email: string) =>
    (await mailsTo(email)).filter(({ subject }) => subject.startsWith("Wrong"));

  test("cause a notice to the address once a day, whether or not the address has an account", async () => {
    const [known, unknown] = [fresh(), fresh()];
    await api.client().signIn(known);
    for (const email of [known, unknown]) {
      await attack(email, { times: 1, tries: 4 });
      expect(await notices(email)).toEqual([]);
      await attack(email, { times: 1, tries: 5 });
      const [notice, ...more] = await notices(email);
      expect(notice?.text).toMatch(/^Wrong sign-in codes were entered/);
      expect(more).toEqual([]);
    }
    expect(api.lines.filter((line) => line.includes("repeated wrong sign-in codes")).join()).not.toContain(
      "@",
    );
    api.clock.advance(86_401);
    await attack(known, { times: 1, tries: 5 });
    expect(await notices(known)).toHaveLength(2);
  });

  test("cause only one notice if several processes detect them at the same time", async () => {
    const email = fresh();
    await attack(email, { times: 1, tries: 5 });
    const address = createCodeHashes(api.sealingKey).address(email);
    for (let round = 0; round < 10; round += 1) {
      await api.db("sign_in_mails").where({ email_hash: address, kind: "notice" }).delete();
      const planned = await Promise.all(
        [api, replica, api, replica].map(({ db }) =>
          planNotice(db, address, { from: 5, now: api.clock.now() }),
        ),
      );
      expect(planned.filter((plan) => plan !== undefined)).toHaveLength(1);
    }
  });

  test.each([
    ["is repeated with the next wrong code", {}, 1],
    ["counts if the server may have accepted it", { inDoubt: true }, 0],
  ])("cause a notice that, if its sending failed, %s", async (_, fault, more) => {
    const mailed: string[] = [];
    let fails = true;
    const mailer = () => ({
      async send({ to }: { to: string }) {
        if (fails) throw Object.assign(new Error("no mail"), fault);
        mailed.push(to);
      },
      close() {},
    });
    const failing = await startApi({ shares: api, mailer });
    try {
      const email = fresh();
      await send(api.client(), email);
      const guess = wrong(await newestCode(email));
      for (let n = 0; n < 5; n += 1) expect((await verify(failing.client(), email, guess)).status).toBe(400);
      fails = false;
      for (let n = 0; n < 2; n += 1) expect((await verify(failing.client(), email, guess)).status).toBe(400);
      expect(mailed).toHaveLength(more);
    } finally {
      await failing.stop();
    }
  });
});
