import { randomUUID } from "node:crypto";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import { Registry } from "prom-client";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { VERIFICATION_PRICE_MICRO_USD as price } from "../../src/accounts/ledger/amounts.ts";
import { createMailer } from "../../src/accounts/mail/mail.ts";
import { MAX_ATTEMPTS, RETRY_DELAYS } from "../../src/accounts/mail/retries.ts";
import type { Mailer } from "../../src/accounts/mail/smtp.ts";
import { renderMail } from "../../src/accounts/mailings/render.ts";
import { createStopTokens } from "../../src/accounts/mailings/stop_links.ts";
import { claimNotices, createNoticeConsumer } from "../../src/accounts/notices/queue.ts";
import { createNoticeSender, startNotices } from "../../src/accounts/notices/sender.ts";
import { noticeContent } from "../../src/accounts/notices/texts.ts";
import { addSeconds } from "../../src/clock.ts";
import { createFindPage, splitAccount } from "../../src/console/core/places.ts";
import { consolePages } from "../../src/console/pages.ts";
import { openPool } from "../../src/db/database.ts";
import type { BusEvent } from "../../src/events/bus.ts";
import { consume } from "../../src/events/consume.ts";
import type { AccountEvent } from "../../src/events/kinds.ts";
import { decideBatch } from "../../src/proofs/decide/decision.ts";
import { makeConnection } from "../events/support/connection.ts";
import { useDatabase } from "../events/support/database.ts";
import { append, deniedEvent } from "../events/support/events.ts";
import { startReceiver } from "../events/support/receiver.ts";
import { eventually } from "../events/support/time.ts";
import { startTestWorker } from "../events/support/worker.ts";
import { insertRecords, itemFor } from "../proofs/records.ts";
import { type SteeredClock, steeredClock } from "../support/clock.ts";
import { mailSettings, type SmtpReceiver, startSmtp } from "../support/smtp.ts";

const home = useDatabase();
const place = { baseUrl: "https://api.example.com", word: "service" };
const AT = "2026-05-01T10:20:30.045Z";
let smtp: SmtpReceiver;
let clock: SteeredClock;
let lines: string[];
let registry: Registry;

beforeEach(async () => {
  smtp = await startSmtp();
  clock = steeredClock(new Date("2026-05-01T10:21:00.000Z"));
  lines = [];
  registry = new Registry();
  await home.database("notices").delete();
});
afterEach(() => smtp.stop());

const log = pino({ level: "debug" }, { write: (line: string) => void lines.push(line) });

function eventOf(accountId: string, level: "low" | "exhausted"): AccountEvent {
  return {
    type: "credits.low",
    account_id: accountId,
    level,
    balance_micro_usd: level === "low" ? 1_998_000 : 1_000,
    low_at_micro_usd: 2_000_000,
    price_micro_usd: price,
    occurred_at: AT,
  };
}

function busEvent(accountId: string, changes: Partial<BusEvent> = {}): BusEvent {
  const { type, ...fields } = eventOf(accountId, "low");
  return {
    eventId: randomUUID(),
    type,
    aggregateType: "account",
    aggregateId: accountId,
    aggregateSeq: 1,
    schemaVersion: 1,
    payload: JSON.stringify({ event: type, ...fields }),
    headers: {},
    createdAt: new Date(AT),
    ...changes,
  };
}

const take = (...events: BusEvent[]) =>
  consume({ database: home.database, clock, log }, createNoticeConsumer({ clock }), events);

/** Creates an account with an event that the notice consumer has read. */
async function notified() {
  const { accountId } = await insertRecords(home.database, 0);
  const event = busEvent(accountId);
  await take(event);
  const account = await home.database("accounts").where({ account_id: accountId }).first("email");
  return { accountId, event, email: account?.email ?? "" };
}

const stopTokens = createStopTokens(Buffer.alloc(32));

function sender(options: { url?: string; mailer?: Pick<Mailer, "send">; attemptMs?: number } = {}) {
  const mail = mailSettings(options.url ?? smtp.url);
  const { mailer } =
    options.mailer === undefined ? createMailer(mail, { log, clock }) : { mailer: options.mailer };
  const { attemptMs } = options;
  return createNoticeSender({
    ...{ db: home.database, clock, mailer, log, metrics: { registry }, place, stopTokens },
    ...(attemptMs === undefined ? {} : { attemptMs }),
  });
}

const stateOf = ({ eventId }: BusEvent) => home.database("notices").where({ event_id: eventId }).first();

describe("a notice", () => {
  test("reaches the account's address once, with the event's id in its Message-ID", async () => {
    const { event, email, accountId } = await notified();
    await take(event, event);
    const { step } = sender();
    expect([await step(), await step()]).toEqual([true, false]);
    expect(smtp.mails.map(({ from, to }) => [from, to])).toEqual([["no-reply@example.com", [email]]]);
    const { raw } = smtp.mails[0] ?? { raw: "" };
    expect(raw).toContain(`Message-ID: <${event.eventId}@example.com>`);
    expect(raw).toContain("Subject: Your credit is running low");
    expect(raw.replaceAll("=\r\n", "")).toContain(accountId);
    expect(await stateOf(event)).toMatchObject({ state: "sent", attempts: 1, settled_at: clock.now() });
    expect(lines.join("")).not.toContain(email);
  });

  test("goes to the longest-standing owner of an organization if the person who opened it has left", async () => {
    const { accountId, email } = await notified();
    const owners = [await notified(), await notified(), await notified()];
    const [longest] = owners;
    for (const [n, { accountId: member }] of owners.entries()) {
      await home.database("organization_members").insert({
        organization_id: accountId,
        account_id: member,
        role: n === 1 ? "auditor" : "owner",
        joined_at: addSeconds(clock.now(), n === 1 ? 0 : n + 1),
      });
    }
    const recipients = async () => {
      await home.database("notices").delete();
      await take(busEvent(accountId));
      return (await claimNotices(home.database, 8, clock.now())).map((notice) => notice.email);
    };
    expect(await recipients()).toEqual([email]);
    await home.database("accounts").where({ account_id: accountId }).update({ own_role: null });
    expect(await recipients()).toEqual([longest?.email]);
    await home.database("accounts").where({ account_id: accountId }).update({ own_role: "auditor" });
    expect(await recipients()).toEqual([longest?.email]);
  });

  test("does not go out again if its event arrives again after the inbox forgot the event", async () => {
    const { event } = await notified();
    await sender().step();
    const sent = await stateOf(event);
    await home.database("inbox").where({ event_id: event.eventId }).delete();
    await take(event);
    expect(await stateOf(event)).toEqual(sent);
    expect(await home.database("dead_letters").where({ event_id: event.eventId })).toEqual([]);
    const waiting = await notified();
    const [claimed] = await claimNotices(home.database, 1, clock.now());
    await home.database("inbox").where({ event_id: waiting.event.eventId }).delete();
    await take(waiting.event);
    expect(claimed).toMatchObject({ event_id: waiting.event.eventId });
    expect(await claimNotices(home.database, 1, clock.now())).toEqual([]);
  });

  test("goes out once if several processes send", async () => {
    await Promise.all(Array.from({ length: 6 }, notified));
    const senders = Array.from({ length: 3 }, () => {
      registry = new Registry();
      return sender();
    });
    await Promise.all(senders.flatMap(({ step }) => [step(), step()]));
    expect(smtp.mails).toHaveLength(6);
  });

  test("belongs to the process that claimed it, even before that process commits the claim", async () => {
    const { event } = await notified();
    const first = await home.database.transaction();
    expect(await claimNotices(first, 8, clock.now())).toMatchObject([{ event_id: event.eventId }]);
    const committed = sleep(200).then(() => first.commit());
    expect(await claimNotices(home.database, 8, clock.now())).toEqual([]);
    await committed;
  });

  test('has the state "sent" before the sender\'s next step', async () => {
    const { event } = await notified();
    const holder = await home.database.transaction();
    const mailer = {
      async send() {
        await holder("notices").where({ event_id: event.eventId }).forUpdate();
      },
    };
    const step = sender({ mailer }).step();
    expect(await Promise.race([step, sleep(300, "not yet")])).toBe("not yet");
    await holder.commit();
    await step;
    expect(await stateOf(event)).toMatchObject({ state: "sent" });
  });

  test("waits through an outage of hours, and goes out when the mail server is back", async () => {
    const { event } = await notified();
    const { step } = sender();
    smtp.behave("refuse");
    for (const delay of RETRY_DELAYS.slice(0, 8)) {
      expect(await step()).toBe(true);
      clock.advance(delay - 0.001);
      expect(await step()).toBe(false);
      clock.advance(0.001);
    }
    expect(await stateOf(event)).toMatchObject({ state: "waiting", attempts: 8 });
    smtp.behave("take");
    await step();
    expect(smtp.mails).toHaveLength(1);
    expect(await stateOf(event)).toMatchObject({ state: "sent", attempts: 9 });
    const text = await registry.metrics();
    expect(text).toContain('deputize_notice_attempts_total{outcome="retried"} 8');
    expect(text).toContain('deputize_notice_attempts_total{outcome="sent"} 1');
  });

  test("fails permanently after twelve attempts over three days, and the log omits the address", async () => {
    const { event, email } = await notified();
    const { step } = sender();
    smtp.behave("reject");
    for (const delay of [...RETRY_DELAYS, 0]) {
      expect(await step()).toBe(true);
      clock.advance(delay);
    }
    expect(await stateOf(event)).toMatchObject({ state: "failed", attempts: MAX_ATTEMPTS });
    clock.advance(1e6);
    expect(await step()).toBe(false);
    expect(lines.join("")).toContain('"a notice failed after its last attempt"');
    expect(lines.join("")).toContain('"smtp_response_code":550');
    expect(lines.join("")).not.toContain(email);
    expect(await registry.metrics()).toContain('deputize_notice_attempts_total{outcome="failed"} 1');
  });

  test("goes out from another process if the claiming process dies, unless it already had twelve attempts", async () => {
    const { event } = await notified();
    const { step } = sender();
    const claimed = { attempts: 1, next_attempt_at: new Date(clock.now().getTime() + 60_000) };
    await home.database("notices").where({ event_id: event.eventId }).update(claimed);
    clock.advance(59.999);
    expect(await step()).toBe(false);
    clock.advance(0.001);
    await home.database("notices").where({ event_id: event.eventId }).update({ attempts: MAX_ATTEMPTS });
    await step();
    expect(smtp.mails).toHaveLength(0);
    expect(await stateOf(event)).toMatchObject({ state: "failed" });
  });

  test("does not wait for a mail server that does not respond, and is tried again", async () => {
    const silent = createServer(() => {}).listen(0, "127.0.0.1");
    await new Promise((resolve) => silent.once("listening", resolve));
    const { port } = silent.address() as { port: number };
    const { event } = await notified();
    const step = sender({ url: `smtp://127.0.0.1:${port}`, attemptMs: 100 }).step();
    expect(await Promise.race([step, sleep(10_000, "hangs", { ref: false })])).toBe(true);
    silent.close();
    expect(await stateOf(event)).toMatchObject({ state: "waiting", attempts: 1 });
  });

  test("does not delay other notices if its text cannot be created", async () => {
    const { event: bad } = await notified();
    await home.database("notices").where({ event_id: bad.eventId }).update({ payload: "{}" });
    const { event: good } = await notified();
    await sender().step();
    expect(await stateOf(bad)).toMatchObject({ state: "waiting", attempts: 1 });
    expect(await stateOf(good)).toMatchObject({ state: "sent" });
  });

  test("appears in the metrics with its age while it waits", async () => {
    await notified();
    smtp.behave("refuse");
    await sender().step();
    const text = await registry.metrics();
    expect(text).toContain("deputize_notices_waiting 1");
    expect(text).toContain("deputize_notices_oldest_seconds 29.955");
  });
});

test("the notice consumer ignores unknown event types, moves invalid payloads to the dead letters, and stores the rest", async () => {
  const { accountId } = await insertRecords(home.database, 0);
  const strange = busEvent(accountId, { type: "account.renamed" });
  const broken = busEvent(accountId, { payload: '{"event":"credits.low"}' });
  const good = busEvent(accountId);
  await take(strange, broken, good, busEvent(accountId, { aggregateType: "connection" }));
  expect(await home.database("notices").where({ account_id: accountId }).pluck("event_id")).toEqual([
    good.eventId,
  ]);
  const aside = await home.database("dead_letters").where({ consumer: "notices" }).pluck("event_id");
  expect(aside).toEqual([broken.eventId]);
});

describe("the mail about an account event", () => {
  const accountId = "01980f3e-6b1c-7d52-9a3e-5c1f7e20b846";
  const connectionId = "01980f3e-6b1c-7d52-9a3e-5c1f7e20b847";
  const suspended = (reason: "gone" | "failing"): AccountEvent => ({
    type: "webhook.suspended",
    ...{ account_id: accountId, connection_id: connectionId, reason, occurred_at: AT },
  });
  const credit = `https://api.example.com/console/for/${accountId}/credit`;
  const callback = `https://api.example.com/console/for/${accountId}/connections/${connectionId}/callback`;
  const noCredit = "verification answers 402 credits_exhausted. No decision is made";

  test.each([
    {
      name: "low credit",
      event: eventOf(accountId, "low"),
      subject: "Your credit is running low",
      says: ["At 2026-05-01 10:20 UTC it came to 1.998 USD", "enough for 999 more.", noCredit, accountId],
      button: `Look at your credit: ${credit}`,
    },
    {
      name: "used-up credit",
      event: eventOf(accountId, "exhausted"),
      subject: "Your credit is used up",
      says: ["At 2026-05-01 10:20 UTC it came to 0.001 USD", noCredit, accountId],
      button: `Look at your credit: ${credit}`,
    },
    {
      name: "a callback that answered 410",
      event: suspended("gone"),
      subject: "Webhooks of a connection are suspended",
      says: ["Since 2026-05-01 10:20 UTC", `${connectionId}, because it answered 410`, "kept for 30 days"],
      button: `Look at the callback: ${callback}`,
    },
    {
      name: "a callback that failed for days",
      event: suspended("failing"),
      subject: "Webhooks of a connection are suspended",
      says: [`${connectionId}, because it has accepted nothing for 120 hours`, "resume sending there"],
      button: `Look at the callback: ${callback}`,
    },
  ])(
    "a notice about $name states the cause, the consequences and what to do, and links to the page",
    (row) => {
      const content = noticeContent(row.event, { organization_name: null }, place);
      const { subject, text, html = "", headers } = renderMail(content, place);
      expect(subject).toBe(row.subject);
      for (const part of [text, html]) for (const words of row.says) expect(part).toContain(words);
      expect(text).toContain(`${row.button}\n`);
      expect(html).toContain(`href="${row.button.replace(/^[^:]*: /, "")}"`);
      const { path } = splitAccount(content.button.path);
      expect(createFindPage(consolePages)(path)?.page.id).toMatch(/^(credit|callback)$/);
      expect(`${text}${html}`).not.toMatch(/\b(GET|POST) |\/v1\//);
      expect([headers, text.includes("Stop mails")]).toEqual([undefined, false]);
      expect(text).toContain("You get this mail because it is about your own account.");
    },
  );

  test("a notice names the contact for more credit, and quotes the organization's name", () => {
    const owner = { organization_name: "evil.example" };
    const content = noticeContent(eventOf(accountId, "low"), owner, {
      ...place,
      contact: "help@example.test",
    });
    const { text } = renderMail(content, place);
    expect(text).toContain("run this service (help@example.test) for more credit");
    expect(text).toContain("an owner of the organization “evil.\u2060example”.");
  });
});

/** Runs a worker and the sender of notices while `cause` causes an event and until one mail arrived. */
async function mailAfter(cause: () => Promise<unknown>): Promise<string> {
  const worker = startTestWorker(home.urls);
  const { mailer } = createMailer(mailSettings(smtp.url), { log, clock });
  const real = { now: () => new Date() };
  const deps = { db: home.database, clock: real, mailer, log, metrics: { registry }, place, stopTokens };
  const notices = startNotices(deps);
  try {
    await cause();
    await eventually("the mail", () => smtp.mails.length > 0);
    await eventually("the outbox is empty", async () => (await home.database("outbox")).length === 0);
    expect(smtp.mails).toHaveLength(1);
    return smtp.mails[0]?.raw ?? "";
  } finally {
    await notices.stop();
    await worker.stop();
  }
}

describe("a notice passes through outbox and worker to the mail server", () => {
  test("from an attempt that the callback answered with 410", async () => {
    const receiver = await startReceiver();
    receiver.reply = () => 410;
    const connection = await makeConnection(home.database, receiver.url);
    receiver.secret = connection.secret;
    try {
      const raw = await mailAfter(async () => {
        for (const id of ["one", "two", "three"]) await append(home.database, deniedEvent(connection, id));
      });
      expect(raw).toContain("Subject: Webhooks of a connection are suspended");
      expect(raw.replaceAll("=\r\n", "")).toContain(connection.connectionId);
      expect(smtp.mails[0]?.to).toEqual([`${connection.accountId}@example.test`]);
      expect(receiver.requests.flatMap(({ faults }) => faults)).toEqual([]);
    } finally {
      await receiver.close();
      await home.database.raw("truncate webhook_endpoints cascade");
    }
  });

  test("from the last decision for which there was credit", async () => {
    const records = await insertRecords(home.database, price);
    const pool = openPool({ url: home.url, name: "test", onError: () => {} });
    try {
      const raw = await mailAfter(() => decideBatch(pool, [itemFor(records, { decidedAt: new Date() })]));
      expect(raw).toContain("Subject: Your credit is used up");
      expect(raw).toContain("Content-Type: text/html");
      expect(await home.database("dead_letters").whereNot({ consumer: "notices" })).toEqual([]);
      expect(await home.database("webhook_deliveries")).toEqual([]);
    } finally {
      await pool.end();
    }
  });
});
