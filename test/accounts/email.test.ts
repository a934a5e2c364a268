import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { canonicalEmail } from "../../src/accounts/email.ts";
import { startApi } from "../support/api.ts";
import { mailerTo, type SmtpReceiver, startSmtp } from "../support/smtp.ts";

describe("canonicalEmail", () => {
  test.each([
    ["Ada@Example.COM", "ada@example.com"],
    ["a.b+c'd_e-f@sub.example.co", "a.b+c'd_e-f@sub.example.co"],
    ["r&d@example.com", "r&d@example.com"],
    ["First/Last@example.com", "first/last@example.com"],
    ["!#$%&'*+-/=?^_`{|}~@example.com", "!#$%&'*+-/=?^_`{|}~@example.com"],
    ["jörg@example.com", "jörg@example.com"],
    ["JO\u0308RG@example.com", "jörg@example.com"],
    ["\u212Aate@example.com", "kate@example.com"],
    ["info@BÜCHER.example", "info@xn--bcher-kva.example"],
    ["info@bu\u0308cher.example", "info@xn--bcher-kva.example"],
    ["info@xn--bcher-kva.example", "info@xn--bcher-kva.example"],
    ["info@bücher。example", "info@xn--bcher-kva.example"],
    ["почта@пример.рф", "почта@xn--e1afmkfd.xn--p1ai"],
    ["用户@例子.广告", "用户@xn--fsqu00a.xn--4rr70v"],
    ["उपयोगकर्ता@उदाहरण.भारत", "उपयोगकर्ता@xn--p1b6ci4b4b3a.xn--h2brj9c"],
    ["straße@example.de", "straße@example.de"],
    ["ada@faß.de", "ada@xn--fa-hia.de"],
    ["ada@p\u0430ypal.com", "ada@xn--pypal-4ve.com"],
  ])("converts %s to %s", (text, address) => {
    expect(canonicalEmail(text)).toBe(address);
    expect(canonicalEmail(address)).toBe(address);
  });

  test.each([
    ["an address without a domain", "ada"],
    ["an address without a local part", "@example.com"],
    ["an address at a host without a dot", "ada@localhost"],
    ["an address with two dots", "a..b@example.com"],
    ["a local part that ends with a dot", "ada.@example.com"],
    ["an address with a dot at the domain's end", "ada@example.com."],
    ["an IP address as domain", "ada@127.1"],
    ["a domain in brackets", "ada@[127.0.0.1]"],
    ["a quoted local part", '"a b"@example.com'],
    ["an address with a space", "a b@example.com"],
    ["an address with a comma", "a,b@example.com"],
    ["an address with a semicolon", "a;b@example.com"],
    ["an address with a colon", "a:b@example.com"],
    ["an address with a backslash", "a\\b@example.com"],
    ["an address with a bracket", "a[b@example.com"],
    ["an address with a quotation mark", 'a"b@example.com'],
    ["an address with a comment", "ada(home)@example.com"],
    ["two addresses without a space", "ada@example.com,eve@example.com"],
    ["an address with a combining mark after a sign that it changes", "a=\u0338b@example.com"],
    ["two addresses", "ada@example.com, eve@example.com"],
    ["an address with a display name", "Ada <ada@example.com>"],
    ["an address with a header", "ada@example.com\r\nBcc: eve@example.com"],
    ["an address with a path", "ada@example.com/x"],
    ["an address with a port", "ada@example.com:25"],
    ["an address with a broken A-label", "ada@xn--a.com"],
    ["an address with an underscore in its domain", "ada@a_b.com"],
    ["an address with a zero-width space", "ada\u200b@example.com"],
    ["an address with a zero-width space in its domain", "ada@exa\u200bmple.com"],
    ["an address with a soft hyphen in its domain", "ada@exa\u00admple.com"],
    ["an address with a bidi control", "ada\u202e@example.com"],
    ["an address with a joiner", "a\u200dda@example.com"],
    ["an address with full-width letters", "\uff41da@example.com"],
    ["an address with a ligature", "o\ufb03ce@example.com"],
    ["an address with a Cyrillic letter among Latin ones", "\u0430dmin@example.com"],
    ["an address with a Greek letter among Latin ones", "admin\u03bf@example.com"],
    ["a local part that begins with a combining mark", "\u0301ada@example.com"],
    ["an address with a lone surrogate", "ada\ud800@example.com"],
    ["an address with 65 bytes before the @", `${"ö".repeat(32)}o@example.com`],
    ["an address of 255 bytes", `ö@${`${"a".repeat(60)}.`.repeat(4)}examples`],
    ["an address with an emoji", "\u{1F600}@example.com"],
    ["an address with a grapheme joiner", "a\u034fda@example.com"],
    ["an address with a variation selector", "ada\ufe0f@example.com"],
    ["an address with a supplementary variation selector", "ada\u{e0100}@example.com"],
    ["an address with a variation selector after a Han character", "\u8fbb\u{e0100}@example.com"],
    ["an address with a Hangul choseong filler", "ada\u115f@example.com"],
    ["an address with a Hangul jungseong filler", "ada\u1160@example.com"],
    ["an address with a Khmer inherent vowel", "ada\u17b4@example.com"],
    ["an address with a Mongolian variation selector", "ada\u180b@example.com"],
    ["an address with a joiner between letters that join", "\u0915\u094d\u200d\u0937@example.com"],
    ["an address with a grapheme joiner in its domain", "ada@exa\u034fmple.com"],
    ["an address with a variation selector in its domain", "ada@example\ufe0f.com"],
  ])("rejects %s", (_, text) => {
    expect(canonicalEmail(text)).toBeUndefined();
  });

  test("makes every spelling of an address lead to the same account, which shows the canonical form", async () => {
    const api = await startApi();
    try {
      const [one, two] = [api.client(), api.client()];
      const first = await one.signIn("jörg@xn--bcher-kva.example");
      await two.post("/v1/auth/email/send-code", { email: "JO\u0308RG@BÜCHER.example" });
      const code = await two.codeFor("jörg@xn--bcher-kva.example");
      const again = await two.post("/v1/auth/email/verify-code", { email: "Jörg@bücher.EXAMPLE", code });
      expect(again.body).toMatchObject({
        account_id: first.account_id,
        email: "jörg@xn--bcher-kva.example",
      });
      expect((await two.get("/v1/auth/session")).body.email).toBe("jörg@xn--bcher-kva.example");
      const other = await api.client().signIn("jorg@xn--bcher-kva.example");
      expect(other.account_id).not.toBe(first.account_id);
    } finally {
      await api.stop();
    }
  });
});

test("an email says that a program sent it, so that no program answers it", async () => {
  const smtp = await startSmtp();
  try {
    await mailerTo(smtp).send({ to: "r&d@example.com", subject: "s", text: "t" });
    const mail = smtp.mails.at(-1);
    expect(mail?.to).toEqual(["r&d@example.com"]);
    expect(mail?.raw).toMatch(/^Auto-Submitted: auto-generated\r$/m);
    expect(mail?.raw).toMatch(/^To: r&d@example\.com\r$/m);
  } finally {
    await smtp.stop();
  }
});

describe("an email to a non-ASCII address", () => {
  let smtp: SmtpReceiver;
  let asciiOnly: SmtpReceiver;
  beforeAll(async () => {
    smtp = await startSmtp();
    asciiOnly = await startSmtp({ ascii: true });
  });
  afterAll(async () => {
    await asciiOnly.stop();
    await smtp.stop();
  });

  test("arrives through SMTPUTF8, and its code opens a session", async () => {
    const api = await startApi({ mailer: () => mailerTo(smtp) });
    try {
      const [client, email] = [api.client(), "用户@例子.广告"];
      expect((await client.post("/v1/auth/email/send-code", { email })).status).toBe(200);
      const mail = smtp.mails.at(-1);
      expect(mail).toMatchObject({ smtpUtf8: true });
      expect(canonicalEmail(mail?.to[0] ?? "")).toBe(canonicalEmail(email));
      const code = /^Your sign-in code is (\d{6})\r$/m.exec(mail?.raw ?? "")?.[1];
      expect((await client.post("/v1/auth/email/verify-code", { email, code })).status).toBe(200);
    } finally {
      await api.stop();
    }
  });

  test.each([false, true])(
    "goes out after STARTTLS and login only if the server supports SMTPUTF8 (ASCII-only server: %s)",
    async (ascii) => {
      const secured = await startSmtp({ ascii, password: "pass-word" });
      try {
        const mail = { to: "jörg@example.com", subject: "s", text: "t" };
        const sent = mailerTo(secured).send(mail);
        if (ascii) {
          await expect(sent).rejects.toMatchObject({ code: "ENOUTF8", inDoubt: false });
        } else {
          await sent;
        }
        await mailerTo(secured).send({ ...mail, to: "ada@example.com" });
        const expected = ["jörg@example.com", "ada@example.com"].slice(ascii ? 1 : 0);
        expect(secured.mails.map(({ to }) => to.join())).toEqual(expected);
        const other = { ...secured, url: secured.url.replace("pass-word", "another") };
        await expect(mailerTo(other).send(mail)).rejects.toMatchObject({ code: ascii ? "ENOUTF8" : "EAUTH" });
      } finally {
        await secured.stop();
      }
    },
  );

  test("needs no SMTPUTF8 if only the domain is not ASCII", async () => {
    await mailerTo(asciiOnly).send({ to: "info@xn--bcher-kva.example", subject: "s", text: "t" });
    const mail = asciiOnly.mails.at(-1);
    expect(mail).toMatchObject({ smtpUtf8: false });
    expect(canonicalEmail(mail?.to[0] ?? "")).toBe("info@xn--bcher-kva.example");
  });

  test("causes a 503 if the server has no SMTPUTF8, and nothing is sent or counted", async () => {
    const api = await startApi({ mailer: () => mailerTo(asciiOnly) });
    try {
      const answer = await api.client().post("/v1/auth/email/send-code", { email: "jörg@example.com" });
      expect(answer).toMatchObject({ status: 503, body: { error: { code: "unavailable" } } });
      expect(asciiOnly.mails.filter(({ raw }) => raw.includes("sign-in code"))).toEqual([]);
      expect(await api.db("sign_in_mails")).toEqual([]);
      expect(api.lines.join("")).toContain('"smtp_code":"ENOUTF8"');
    } finally {
      await api.stop();
    }
  });
});
