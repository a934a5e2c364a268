import type { AddressInfo } from "node:net";
import { createServer, type Server } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { mailChecks } from "../../src/doctor/mail.ts";
import { mailSettings, startSmtp } from "../support/smtp.ts";
import { rowsOf } from "./support.ts";

const running: { stop(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const each of running.splice(0)) await each.stop();
});

async function look(settings: Record<string, string>) {
  const { "mail server": row } = await rowsOf(mailChecks(), settings);
  return row;
}

async function smtp(options: Parameters<typeof startSmtp>[0] = {}) {
  const server = await startSmtp(options);
  running.push(server);
  return server;
}

/** Starts a server that answers each line of an SMTP client with the reply of its command. */
async function scripted(replies: Record<string, string>): Promise<string> {
  const server: Server = createServer((socket) => {
    socket.on("error", () => {});
    if (replies.CONNECT !== undefined) socket.write(`${replies.CONNECT}\r\n`);
    socket.on("data", (chunk) => {
      const [command = ""] = chunk.toString().split(/\s/);
      const reply = replies[command];
      if (reply !== undefined) socket.write(`${reply}\r\n`);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  running.push({ stop: () => new Promise((resolve) => void server.close(resolve)) });
  return `smtp://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test("a server that accepts greeting, TLS and login passes, and receives no mail", async () => {
  const server = await smtp({ password: "right" });
  const row = await look(mailSettings(server.url));
  expect(row?.status).toBe("ok");
  expect(row?.detail).toContain("accepts the greeting as deputize.example.com, with TLS, with a login");
  expect(server.mails).toEqual([]);
});

test("a server without TLS and login passes, and the row says so", async () => {
  const server = await smtp();
  expect(await look(mailSettings(server.url))).toMatchObject({
    status: "ok",
    detail: expect.stringContaining("without TLS, without a login"),
  });
});

test("a missing MAIL_FROM fails", async () => {
  const server = await smtp();
  const { MAIL_FROM: _, ...settings } = mailSettings(server.url);
  expect(await look(settings)).toMatchObject({
    status: "failed",
    detail: expect.stringContaining("MAIL_FROM is not set"),
  });
});

describe("the row names the fault of a server that", () => {
  test("refuses the login, without the password", async () => {
    const server = await smtp({ password: "right" });
    const row = await look(mailSettings(server.url.replace("right", "wr0ng")));
    expect(row).toMatchObject({ status: "failed", detail: expect.stringContaining("refuses the login") });
    expect(JSON.stringify(row)).not.toContain("wr0ng");
  });

  test("refuses the greeting", async () => {
    const refusal = "550 5.7.1 not you";
    const url = await scripted({ CONNECT: "220 relay", EHLO: refusal, HELO: refusal });
    expect(await look(mailSettings(url))).toMatchObject({
      status: "failed",
      detail: expect.stringContaining("refuses the greeting as deputize.example.com (550)"),
    });
  });

  test("refuses the connection with a code", async () => {
    const url = await scripted({ CONNECT: "554 no service here" });
    expect(await look(mailSettings(url))).toMatchObject({
      status: "failed",
      detail: expect.stringContaining("(554)"),
    });
  });

  test("has a certificate that nobody issued", async () => {
    const server = await smtp({ password: "right" });
    const url = server.url.replace("&tls.rejectUnauthorized=false", "");
    expect(await look(mailSettings(url))).toMatchObject({
      status: "failed",
      detail: expect.stringMatching(
        /TLS could not be started: the server's certificate|the server's certificate/,
      ),
    });
  });

  test("does not listen", async () => {
    expect(await look(mailSettings("smtp://127.0.0.1:1"))).toMatchObject({
      status: "failed",
      detail: expect.stringContaining("nothing listens"),
    });
  });
});

test("without a mail server, the check is skipped", async () => {
  expect(await look({ BASE_URL: "https://a" })).toMatchObject({
    status: "skipped",
    detail: "SMTP_URL is not set",
  });
});
