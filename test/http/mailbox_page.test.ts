import Koa from "koa";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createMailbox, createMailer } from "../../src/accounts/mail/mail.ts";
import { mailboxPage } from "../../src/http/mailbox_page.ts";
import { startServer } from "../../src/http/server/server.ts";
import { startApi, type TestApi } from "../support/api.ts";
import { steeredClock } from "../support/clock.ts";
import { mailSettings } from "../support/smtp.ts";

const MAILBOX = "/dev/mailbox";
let api: TestApi;
beforeAll(async () => {
  api = await startApi();
  for (const email of ["one@example.com", "two@example.com"]) {
    await api.client().post("/v1/auth/email/send-code", { email });
  }
});
afterAll(() => api.stop());

describe("the development mailbox", () => {
  test("returns its messages to programs as JSON, newest first", async () => {
    const { body } = await api.client().get(MAILBOX, { headers: { accept: "application/json" } });
    expect(body).toEqual({
      mails: ["two@example.com", "one@example.com"].map((to) => ({
        to,
        subject: "Your sign-in code",
        text: expect.stringMatching(/^Your sign-in code is \d{6}\n/),
        sent_at: api.clock.now().toISOString(),
      })),
    });
  });

  test("shows people a page without scripts", async () => {
    const answer = await api.client().get(MAILBOX, { headers: { accept: "text/html,*/*" } });
    expect(answer.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(answer.headers.get("content-security-policy")).toMatch(/^default-src 'none';/);
    expect(answer.text).toMatch(/Your sign-in code is \d{6}/);
    expect(answer.text).toContain("two@example.com");
  });

  test("escapes the text of a message", async () => {
    const mail = {
      to: `"'<b>&"@x`,
      subject: "<script>alert(1)</script>",
      text: "</pre><img src=x onerror=alert(1)>",
    };
    const page = mailboxPage({ list: () => [{ ...mail, sentAt: new Date(0) }] });
    const server = await startServer(new Koa().use(page).callback(), { host: "127.0.0.1", port: 0 });
    const text = await (await fetch(`http://127.0.0.1:${server.port}${MAILBOX}`)).text();
    await server.stop(0);
    expect(text).toContain("&#60;script&#62;alert(1)&#60;/script&#62;");
    expect(text).toContain("&#34;&#39;&#60;b&#62;&#38;&#34;@x");
    expect(text).not.toMatch(/<script|<img|<b>/);
  });

  test("logs each code, and keeps the newest hundred messages", async () => {
    const lines: string[] = [];
    const log = { info: (line: string) => lines.push(line) } as never;
    const mailbox = createMailbox({ log, clock: steeredClock() });
    for (let n = 0; n < 101; n += 1) {
      await mailbox.send({ to: `n${n}@example.com`, subject: "s", text: `first ${n}\nmore` });
    }
    expect(mailbox.list()).toHaveLength(100);
    expect(mailbox.list()[0]?.to).toBe("n100@example.com");
    expect(mailbox.list().at(-1)?.to).toBe("n1@example.com");
    expect(lines[0]).toBe("mail for n0@example.com: first 0");
  });

  test("does not exist if an SMTP server is configured", () => {
    const made = createMailer(mailSettings("smtp://127.0.0.1:1"), {
      log: undefined as never,
      clock: steeredClock(),
    });
    expect(made.mailbox).toBeUndefined();
    made.mailer.close();
  });
});
