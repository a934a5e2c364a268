import { type AddressInfo, createServer } from "node:net";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createMailer } from "../../../src/accounts/mail/mail.ts";
import { type ApiOptions, startApi, type TestApi } from "../../support/api.ts";
import { steeredClock } from "../../support/clock.ts";
import { mailSettings, type SmtpReceiver, startSmtp } from "../../support/smtp.ts";

const SEND = "/v1/auth/email/send-code";
const VERIFY = "/v1/auth/email/verify-code";
const running: TestApi[] = [];
/** The first API. All other APIs share its database. */
let first: TestApi;

async function start(options?: ApiOptions): Promise<TestApi> {
  const api = await startApi({ shares: first, clock: steeredClock(), ...options });
  running.push(api);
  return api;
}

beforeAll(async () => {
  first = await startApi();
});
beforeEach(() => first.db.raw("truncate rate_limits, sign_in_mails"));
afterEach(async () => {
  for (const api of running.splice(0).reverse()) await api.stop();
});
afterAll(() => first.stop());

describe("a sign-in code", () => {
  test("goes out in the same way to addresses with and without an account", async () => {
    await first.client().signIn("known@example.com");
    const [known, unknown] = await Promise.all(
      ["known@example.com", "unknown@example.com"].map((email) => first.client().post(SEND, { email })),
    );
    expect(known).toMatchObject({ status: 200, text: '{"status":"code_sent","resent":false}' });
    expect(unknown?.text).toBe(known?.text);
    expect(unknown?.headers.getSetCookie()).toHaveLength(1);
    expect(known?.headers.getSetCookie()).toHaveLength(1);
  });

  test("counts as resent while the previous code is still valid, but not after that code was used or has expired", async () => {
    const api = await start();
    const client = api.client();
    const email = "ada@example.com";
    const resent = async () => (await client.post(SEND, { email })).body.resent;
    expect(await resent()).toBe(false);
    expect(await resent()).toBe(true);
    await client.post(VERIFY, { email, code: await client.codeFor(email) });
    expect(await resent()).toBe(false);
    api.clock.advance(600);
    expect(await resent()).toBe(true);
    api.clock.advance(600.001);
    expect(await resent()).toBe(false);
  });

  test("does not count as resent if the previous code had five tries", async () => {
    const client = first.client();
    const email = "ada@example.com";
    await client.post(SEND, { email });
    for (let n = 0; n < 5; n += 1) await client.post(VERIFY, { email, code: "000000" });
    expect((await client.post(SEND, { email })).body).toEqual({ status: "code_sent", resent: false });
  });

  test("leaves only keyed hashes in the database", async () => {
    const api = await start();
    const client = api.client();
    await client.post(SEND, { email: "zoe@example.com" });
    const code = await client.codeFor("zoe@example.com");
    const { rows } = await api.db.raw("select sign_in_mails::text as row from sign_in_mails");
    const limits = await api.db.raw("select string_agg(key, ' ') as keys from rate_limits");
    expect(rows).toHaveLength(1);
    for (const stored of [rows[0].row, limits.rows[0].keys]) {
      expect(stored).not.toContain(code);
      expect(stored).not.toContain("zoe");
      expect(stored).not.toContain(Buffer.from("zoe").toString("hex"));
    }
  });

  test.each([
    ["missing", {}],
    ["a number", { email: 1 }],
    ["not an address", { email: "ada" }],
    ["longer than 254 characters", { email: `${"a".repeat(64)}@${"b".repeat(180)}.example.com` }],
    ["two addresses", { email: "ada@example.com, eve@example.com" }],
    ["an injected header", { email: "ada@example.com\r\nBcc: eve@example.com" }],
  ])("cannot be requested for an address that is %s, and the request is not counted", async (_, body) => {
    const answer = await first.client().post(SEND, body);
    expect(answer).toMatchObject({ status: 400, body: { error: { code: "invalid_request" } } });
    expect(String((answer.body.error as { message: string }).message)).toMatch(/^body\.email: /);
    expect(await first.db("rate_limits")).toEqual([]);
    expect(await first.db("sign_in_mails")).toEqual([]);
  });
});

describe("the limit of sign-in codes", () => {
  test("allows an address three codes across all spellings and clients, and then a link", async () => {
    const api = await start({ config: { SEND_CODE_PER_ADDRESS: 3 } });
    const send = (email: string) => api.client().post(SEND, { email });
    for (const email of ["ada@example.com", "ADA@example.com", "Ada@Example.COM"]) {
      expect((await send(email)).status).toBe(200);
      expect(await api.client().codeFor("ada@example.com")).toMatch(/^\d{6}$/);
    }
    expect(await send("ada@example.com")).toMatchObject({ status: 200, body: { status: "code_sent" } });
    expect(await api.client().codeFor("ada@example.com")).toMatch(/^[0-9a-f]{32}$/);
    await send("eve@example.com");
    expect(await api.client().codeFor("eve@example.com")).toMatch(/^\d{6}$/);
  });

  test("allows a client five calls across all addresses, and a refused call does not count for its address", async () => {
    const api = await start({ config: { SEND_CODE_PER_IP: 5, SEND_CODE_PER_ADDRESS: 1 } });
    const send = (email: string) => api.client().post(SEND, { email });
    for (let n = 0; n < 5; n += 1) expect((await send(`n${n}@example.com`)).status).toBe(200);
    expect(await send("ada@example.com")).toMatchObject({
      status: 429,
      body: { error: { code: "rate_limited" } },
    });
    await api.db("rate_limits").where("key", "like", "send_code_ip:%").delete();
    expect((await send("ada@example.com")).status).toBe(200);
    expect(await api.client().codeFor("ada@example.com")).toMatch(/^\d{6}$/);
  });

  test("refuses a client before anything is sent or stored, and the earlier code stays valid", async () => {
    const api = await start({ config: { SEND_CODE_PER_IP: 1 } });
    const client = api.client();
    const email = "ada@example.com";
    await client.post(SEND, { email });
    const code = await client.codeFor(email);
    const refused = await client.post(SEND, { email });
    expect(refused).toMatchObject({ status: 429, body: { error: { code: "rate_limited", status: 429 } } });
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(800);
    expect(await client.codeFor(email)).toBe(code);
    expect((await client.post(VERIFY, { email, code })).status).toBe(200);
  });

  test("starts over when the client's time window ends", async () => {
    const api = await start({ config: { SEND_CODE_PER_IP: 1 } });
    const send = () => api.client().post(SEND, { email: "ada@example.com" });
    const moveWindow = (milliseconds: number) =>
      api
        .db("rate_limits")
        .where("key", "like", "send_code_ip:%")
        .update({ expire: Date.now() + milliseconds });
    await send();
    await moveWindow(60_000);
    expect((await send()).headers.get("retry-after")).toMatch(/^(59|60)$/);
    await moveWindow(-1);
    expect((await send()).status).toBe(200);
  });

  test("counts an address across replicas and concurrent calls", async () => {
    const one = await start({ config: { SEND_CODE_PER_ADDRESS: 3 } });
    const other = await start({ config: { SEND_CODE_PER_ADDRESS: 3 } });
    await Promise.all(
      Array.from({ length: 10 }, (_, n) =>
        (n % 2 === 0 ? one : other).client().post(SEND, { email: "ada@example.com" }),
      ),
    );
    const kinds = (await one.db("sign_in_mails").select("kind")).map(({ kind }) => kind).sort();
    expect(kinds).toEqual(["digits", "digits", "digits", "link"]);
  });

  test("allows exactly the configured number of concurrent calls", async () => {
    const one = await start({ config: { SEND_CODE_PER_IP: 5 } });
    const other = await start({ config: { SEND_CODE_PER_IP: 5 } });
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        (n % 2 === 0 ? one : other).client().post(SEND, { email: `n${n}@example.com` }),
      ),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(5);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(15);
  });

  test("cannot be avoided with a forged forwarding header if no proxy is trusted", async () => {
    const api = await start({ config: { SEND_CODE_PER_IP: 2 } });
    const statuses = [];
    for (let n = 0; n < 4; n += 1) {
      const headers = {
        "x-forwarded-for": `203.0.113.${n}`,
        forwarded: `for=203.0.113.${n}`,
        "x-real-ip": `203.0.113.${n}`,
      };
      statuses.push((await api.client().post(SEND, { email: `n${n}@example.com` }, { headers })).status);
    }
    expect(statuses).toEqual([200, 200, 429, 429]);
  });

  test.each([
    [
      "the hop that the trusted proxy saw",
      "198.51.100.1, 203.0.113.7",
      "198.51.100.2, 203.0.113.7",
      "203.0.113.7, 203.0.113.8",
    ],
    ["the /64 of an IPv6 client", "2001:db8:1:1::1", "2001:db8:1:1:ffff:ffff:ffff:ffff", "2001:db8:1:2::1"],
  ])("counts calls by %s", async (_, ...chains) => {
    const api = await start({ config: { SEND_CODE_PER_IP: 1, TRUSTED_PROXIES: ["127.0.0.0/8"] } });
    const statuses: number[] = [];
    for (const [n, chain] of chains.entries()) {
      const headers = { "x-forwarded-for": chain };
      statuses.push((await api.client().post(SEND, { email: `n${n}@example.com` }, { headers })).status);
    }
    expect(statuses).toEqual([200, 429, 200]);
  });

  test("refuses everyone if it is zero", async () => {
    const api = await start({ config: { SEND_CODE_PER_IP: 0 } });
    expect((await api.client().post(SEND, { email: "ada@example.com" })).status).toBe(429);
  });
});

describe("sending a code over SMTP", () => {
  let smtp: SmtpReceiver;
  beforeAll(async () => {
    smtp = await startSmtp();
  });
  afterAll(() => smtp.stop());

  function mailerTo(url: string, limits?: { totalMs: number }) {
    return createMailer(mailSettings(url), { log: undefined as never, clock: steeredClock(), ...limits })
      .mailer;
  }

  test("delivers the code to the address, and the code opens a session", async () => {
    smtp.behave("take");
    const api = await start({ mailer: () => mailerTo(smtp.url) });
    const client = api.client();
    await client.post(SEND, { email: "Ada@Example.com" });
    const mail = smtp.mails.at(-1);
    expect(mail).toMatchObject({
      ...{ from: "no-reply@example.com", to: ["ada@example.com"] },
      greeting: "deputize.example.com",
    });
    expect(mail?.raw).toMatch(/^Subject: Your sign-in code\r$/m);
    expect(mail?.raw).toContain("within 10 minutes");
    const code = /^Your sign-in code is (\d{6})\r$/m.exec(mail?.raw ?? "")?.[1] ?? "";
    expect((await client.post(VERIFY, { email: "ada@example.com", code })).status).toBe(200);
    expect(api.lines.join("")).not.toContain(code);
  });

  test.each(["reject", "refuse"] as const)(
    "keeps the earlier code valid if the server decides to %s the email",
    async (how) => {
      const api = await start({ mailer: () => mailerTo(smtp.url), config: { SEND_CODE_PER_ADDRESS: 2 } });
      const client = api.client();
      const email = `${how}@example.com`;
      smtp.behave("take");
      await client.post(SEND, { email });
      const before = await api.db("sign_in_mails");
      smtp.behave(how);
      const failed = await client.post(SEND, { email });
      expect(failed).toMatchObject({ status: 503, body: { error: { code: "unavailable", status: 503 } } });
      expect(await api.db("sign_in_mails")).toEqual(before);
      smtp.behave("take");
      expect((await client.post(SEND, { email })).body).toEqual({ status: "code_sent", resent: true });
      expect(smtp.mails.at(-1)?.raw).toMatch(/sign-in code is \d{6}/);
      expect(api.lines.join("")).toMatch(/"smtp_response_code":(550|451)/);
      expect(api.lines.join("")).not.toContain(email);
    },
  );

  test.each(["hang up", "stall"] as const)(
    "makes a code valid if the server accepted its email before a %s, and a link code then stops further emails",
    async (how) => {
      const refusing = async (kind: string, perAddress: number) => {
        const api = await start({
          mailer: () => mailerTo(smtp.url, { totalMs: 5_000 }),
          config: { SEND_CODE_PER_ADDRESS: perAddress },
        });
        return { api, email: `${kind}.${how.replace(" ", "")}@example.com` };
      };
      const [digits, long] = [await refusing("digits", 1), await refusing("long", 0)];
      const mailSettings = (email: string) => smtp.mails.findLast(({ to }) => to.includes(email))?.raw ?? "";
      const send = ({ api, email }: typeof digits) => api.client().post(SEND, { email });
      const verify = ({ api, email }: typeof digits, code = "") => api.client().post(VERIFY, { email, code });

      smtp.behave(how);
      // A server that hangs up closes every connection.
      const failures =
        how === "stall"
          ? await Promise.all([send(digits), send(long)])
          : [await send(digits), await send(long)];
      for (const failed of failures) {
        expect(failed).toMatchObject({ status: 503, body: { error: { code: "unavailable" } } });
      }
      smtp.behave("take");
      expect(await first.db("sign_in_mails")).toHaveLength(2);
      const code = /sign-in code is (\d{6})/.exec(mailSettings(digits.email))?.[1];
      expect((await send(digits)).status).toBe(200);
      expect(mailSettings(digits.email)).toContain("Subject: Your sign-in link");
      expect((await verify(digits, code)).status).toBe(200);

      const { length } = smtp.mails;
      long.api.clock.advance(1799);
      expect((await send(long)).status).toBe(200);
      expect(smtp.mails).toHaveLength(length);
      const longCode = /^[0-9a-f]{32}\r$/m.exec(mailSettings(long.email))?.[0].trim();
      expect((await verify(long, longCode)).status).toBe(200);
    },
  );

  test("answers 503 for an unreachable server, stores nothing and logs no secret", async () => {
    const hangsUp = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => hangsUp.listen(0, "127.0.0.1", resolve));
    const port = (hangsUp.address() as AddressInfo).port;
    const unreached = await start({ mailer: () => mailerTo(`smtp://user:pass-word@127.0.0.1:${port}`) });
    expect(await unreached.client().post(SEND, { email: "ada@example.com" })).toMatchObject({
      status: 503,
      body: { error: { code: "unavailable" } },
    });
    await new Promise((resolve) => hangsUp.close(resolve));
    expect((await unreached.client().post(SEND, { email: "ada@example.com" })).status).toBe(503);
    expect(await unreached.db("sign_in_mails")).toEqual([]);
    expect(unreached.lines.join("")).toContain("could not be mailed");
    expect(unreached.lines.join("")).not.toContain("pass-word");
  });
});
