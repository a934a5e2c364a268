import { randomBytes } from "node:crypto";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { spreadTopics } from "../../src/accounts/mailings/queue.ts";
import { readWaiting } from "../../src/accounts/notices/queue.ts";
import { messageBody } from "../../src/channels/messages.ts";
import { postToChannels } from "../../src/channels/post.ts";
import { createSecretBox } from "../../src/secret_box.ts";
import { createAddressPolicy, createResolve } from "../../src/webhooks/callback_address.ts";
import { createSender } from "../../src/webhooks/sign_and_send.ts";
import { type Receiver, startReceiver } from "../events/support/receiver.ts";
import { type Person, runningApi } from "../support/api.ts";
import { actingFor, addMember } from "../support/members.ts";
import { approve, copyRequest, createAgent, errorCode, registerPlatform } from "../support/platform_world.ts";

const api = runningApi({ config: { WEBHOOK_ALLOWED_CIDRS: ["127.0.0.0/8"] } });
const CHANNEL = "/v1/service/request-channel";

let app: Receiver;
beforeEach(async () => {
  app = await startReceiver();
});
afterEach(async () => {
  await app.close();
  await api.db("request_channels").delete();
  await api.db("mailing_queues").where({ kind: "channel" }).delete();
});

const log = pino({ level: "silent" });
const policy = createAddressPolicy({ development: true, allowedCidrs: ["127.0.0.0/8"] });
const limits = { dns: 4_000, connect: 5_000, body: 2_000, deadline: 15_000 };
const send = createSender({ policy, resolve: createResolve(), limits });

/** Does what API and worker do until no message is due. */
async function post(secretBox = createSecretBox(Buffer.from(api.sealingKey))): Promise<void> {
  for (let isDue = true; isDue; ) {
    while ((await spreadTopics(api.db, api.clock.now())) || (await api.db("mail_topics").first()));
    await postToChannels({ database: api.db, clock: api.clock, secretBox, send, log });
    // The API's own loop also spreads topics, and may hold some at this moment.
    const { rows } = await api.db.raw(
      `select exists(select from mailing_queues where kind = 'channel' and next_attempt_at <= :now) as due`,
      { now: api.clock.now() },
    );
    isDue = rows[0].due;
  }
}

/** An organization with a channel, and a function that makes a request. */
async function connected(kind: "slack" | "teams" = "slack", name = "Webshop") {
  const owner = await api.person({ organization_name: name });
  const platform = await registerPlatform(owner, { name: "Shop" }, "/v1/service/platforms");
  await createAgent(api.client(), platform);
  const set = (url = app.url, by: Person = owner) =>
    actingFor(by, owner.accountId).put(CHANNEL, { app: kind, url });
  const see = (by: Person = owner) => actingFor(by, owner.accountId).get(CHANNEL);
  const ask = async (body: object = {}) => {
    const path = "/v1/service/delegations/self-request";
    const answer = await owner.client.post(path, { connection_id: platform.connectionId, ...body });
    expect(answer.status, answer.text).toBe(201);
    return String(answer.body.request_id);
  };
  return { owner, platform, set, see, ask };
}

/** Makes requests like this one. */
async function repeat(requestId: string, count: number): Promise<void> {
  const created = { created_at: api.clock.now() };
  await copyRequest(api.db, requestId, count, created);
  const copies = await api.db("delegation_requests").where(created).whereNot({ request_id: requestId });
  for (const { request_id } of copies) {
    await api.db("mail_topics").insert({ kind: "request_waits", request_id, ...created });
  }
}

async function faultOf({ accountId }: Person): Promise<string | null | undefined> {
  return (await api.db("request_channels").where({ account_id: accountId }).first("fault"))?.fault;
}

const bodies = () => app.requests.map(({ body }) => body);

describe("a channel", () => {
  test("gets a first message, and then each new request with a link to its page", async () => {
    const { owner, set, see, ask } = await connected();
    const answer = await set();
    expect(answer.body).toMatchObject({ app: "slack", posted_at: null, fault: null, set_by: owner.email });
    await post();
    expect(bodies()).toEqual([expect.stringContaining("will appear here")]);
    const requestId = await ask({ purpose: "Refunds of the week" });
    await post();
    expect(bodies()).toHaveLength(1);
    api.clock.advance(61);
    await post();
    const [, message = ""] = bodies();
    expect(message).toContain(`/console/for/${owner.accountId}/requests/${requestId}|Look at the request>`);
    expect(message).toContain("Refunds of the week");
    expect((await see()).body).toMatchObject({ posted_at: api.clock.now().toISOString(), fault: null });
  });

  test("gets one message about all requests of a burst, and none about decided ones", async () => {
    const { owner, set, ask } = await connected("teams");
    await set();
    await post();
    const decided = await ask();
    const waiting = await ask();
    await repeat(waiting, 120);
    expect((await approve(owner, decided, ["data:read"])).status).toBe(200);
    api.clock.advance(61);
    await post();
    expect(bodies()).toHaveLength(2);
    expect(bodies()[1]).toContain("121 requests to act for “Webshop” wait for a decision");
    expect(JSON.parse(bodies()[1] ?? "").attachments[0].content.type).toBe("AdaptiveCard");
  });

  test("never interprets what strangers wrote", async () => {
    for (const kind of ["slack", "teams"] as const) {
      const { set, ask } = await connected(kind, "<!channel> & *co*");
      await set();
      await ask({ purpose: "<https://evil.example.com|Approve> [x](https://evil.example.com) <!here>" });
      await post();
    }
    const [slack, teams] = bodies().map((body) => JSON.parse(body));
    expect(slack.text).toContain("&lt;!channel&gt; &amp; *co*");
    const interpreted = slack.blocks.filter(
      ({ text }: { text: { type: string } }) => text.type !== "plain_text",
    );
    expect(interpreted).toHaveLength(1);
    expect(interpreted[0].text.text).toMatch(/^<http:\/\/127\.0\.0\.1[^|<>]*\|Look at the request>$/);
    const [card] = teams.attachments;
    expect(new Set(card.content.body.map(({ type }: { type: string }) => type))).toEqual(
      new Set(["RichTextBlock"]),
    );
    expect(card.content.actions).toHaveLength(1);
  });

  test("keeps what waits while the app is unavailable, and drops what the app rejects", async () => {
    const { owner, set, see, ask } = await connected();
    app.reply = () => 503;
    await set();
    await post();
    expect((await see()).body).toMatchObject({ fault: "status 503", posted_at: null });
    const requestId = await ask();
    app.reply = () => 204;
    api.clock.advance(3600);
    await post();
    expect(bodies().at(-1)).toContain("Look at the request");
    expect(await faultOf(owner)).toBeNull();
    app.reply = () => 404;
    await repeat(requestId, 1);
    api.clock.advance(3600);
    await post();
    expect(await faultOf(owner)).toBe("status 404");
    const rejected = app.requests.length;
    api.clock.advance(24 * 3600);
    await post();
    expect(app.requests).toHaveLength(rejected);
  });

  test("names the person for a personal account, and links to a page that the person can open", async () => {
    const person = await api.person();
    const platform = await registerPlatform(person);
    await createAgent(api.client(), platform);
    await person.client.call("PUT", CHANNEL, { body: { app: "slack", url: app.url } });
    await person.client.post("/v1/service/delegations/self-request", {
      connection_id: platform.connectionId,
    });
    await post();
    const [body = ""] = bodies();
    expect(body).toContain(`asks to act for “${person.email.replaceAll(/[.@]/g, "$&\u2060")}”`);
    expect(body).not.toContain("act for you");
    const [, path = ""] = /<http:\/\/127\.0\.0\.1(?::\d+)?([^|]+)\|/.exec(body) ?? [];
    expect((await person.client.get(path)).status).toBe(200);
  });

  test("never triggers the alert about mails that wait", async () => {
    const { set } = await connected();
    app.reply = () => 503;
    await set();
    await post();
    api.clock.advance(7 * 3600);
    await api.db("mailing_queues").whereNot({ kind: "channel" }).delete();
    expect(await api.db("mailing_queues").where("due_at", "<=", api.clock.now())).toHaveLength(1);
    expect((await readWaiting(api.db, api.clock.now())).waiting).toBe(0);
  });

  test("gets long texts without half a character", () => {
    const heading = `${"a".repeat(2_899)}😀`;
    const message = {
      heading,
      paragraphs: [],
      items: [],
      after: "",
      link: { label: "Look", url: "https://a.example/" },
    };
    const [block] = JSON.parse(messageBody("slack", message)).blocks;
    expect(block.text.text.isWellFormed()).toBe(true);
    expect(block.text.text).toHaveLength(2_901);
  });

  test("never posts to an address of our own network", async () => {
    const { set, see } = await connected();
    await set();
    const strict = createAddressPolicy({ development: true, allowedCidrs: [] });
    const guarded = createSender({ policy: strict, resolve: createResolve(), limits });
    const secretBox = createSecretBox(Buffer.from(api.sealingKey));
    await postToChannels({ database: api.db, clock: api.clock, secretBox, send: guarded, log });
    expect(app.requests).toEqual([]);
    expect((await see()).body.fault).toBe("forbidden_address");
  });

  test("reports that its URL cannot be decrypted, and does not delay other channels", async () => {
    const broken = await connected();
    await broken.set();
    await api.db("request_channels").update({ url_sealed: createSecretBox(randomBytes(32)).box("x", "y") });
    const intact = await connected();
    await intact.set();
    await post();
    expect((await broken.see()).body.fault).toBe("unprepared");
    expect(bodies()).toHaveLength(1);
  });
});

describe("an account", () => {
  test("never gets the channel's URL back, and no row or activity has it in plain text", async () => {
    const { owner, set, see } = await connected();
    const url = `${app.url}/T0KEN-of-the-channel`;
    expect((await set(url)).text + (await see()).text).not.toContain("T0KEN");
    const activity = await actingFor(owner, owner.accountId).get("/v1/service/organization/activity");
    const [entry] = activity.body.items as object[];
    expect(entry).toMatchObject({ operation: "set_request_channel", target: { app: "slack" } });
    const { rows } = await api.db.raw(
      `select c::text as text from request_channels c union all select a::text from organization_activity a
       union all select k::text from idempotency_keys k`,
    );
    expect(rows.map(({ text }: { text: string }) => text).join("\n")).not.toContain("T0KEN");
  });

  test.each([
    ["ftp://hooks.example.com/x", "the scheme must be https"],
    ["https://10.0.0.1/x", "the host must be a name"],
    ["https://user:pass@hooks.example.com/", "it must not contain a user name or password"],
    ["nonsense", "not a URL"],
  ])("gets 400 for the URL %s", async (url, why) => {
    const { set, see } = await connected();
    const answer = await set(url);
    expect([answer.status, errorCode(answer)]).toEqual([400, "invalid_callback_url"]);
    expect(answer.text).toContain(`url: ${why}`);
    expect((await see()).status).toBe(404);
  });

  test("changes its channel at most 5 times a minute", async () => {
    const { set } = await connected();
    for (let n = 0; n < 5; n += 1) expect((await set()).status).toBe(200);
    expect([(await set()).status, (await api.db("request_channels")).length]).toEqual([429, 1]);
  });

  test("lets only owners connect and disconnect, and approvers and auditors look", async () => {
    const { owner, set, see } = await connected();
    await set();
    for (const role of ["approver", "developer", "auditor"] as const) {
      const member = await addMember(api, owner.accountId, role);
      const removed = await actingFor(member, owner.accountId).delete(CHANNEL);
      expect([(await set(app.url, member)).status, removed.status]).toEqual([403, 403]);
      expect((await see(member)).status).toBe(role === "developer" ? 403 : 200);
    }
    const stranger = await api.person();
    expect((await stranger.client.get(CHANNEL)).status).toBe(404);
    expect((await actingFor(owner, owner.accountId).delete(CHANNEL)).status).toBe(200);
    expect((await see()).status).toBe(404);
  });

  test("loses its channel when the owner who connected it is removed", async () => {
    const { owner, set, see } = await connected();
    const second = await addMember(api, owner.accountId, "owner");
    await set(app.url, second);
    const path = `/v1/service/organization/members/${second.accountId}`;
    const members = await actingFor(owner, owner.accountId).get("/v1/service/organization/members");
    const listed = (members.body.members as { email: string; setups: string[] }[]).find(
      ({ email }) => email === second.email,
    );
    expect(listed?.setups).toEqual([`request_channel/${new URL(app.url).host}`]);
    expect((await actingFor(owner, owner.accountId).delete(path)).status).toBe(200);
    expect((await see()).status).toBe(404);
    await post();
    expect(app.requests).toEqual([]);
  });

  test("gets the new channel's first message although the former one was being posted to", async () => {
    const { set } = await connected();
    const next = await startReceiver();
    try {
      await set();
      app.reply = async () => {
        await set(next.url);
        return 204;
      };
      await post();
      await post();
      expect([app.requests.length, next.requests.length]).toEqual([1, 1]);
    } finally {
      await next.close();
    }
  });
});

test.each([200, 404])(
  "a channel that answers %i gets at most 14 messages in a day of requests",
  async (status) => {
    const { set, ask } = await connected();
    app.reply = () => status;
    await set();
    const request = await ask();
    for (let minute = 0; minute < 24 * 60; minute += 20) {
      await repeat(request, 1);
      await post();
      api.clock.advance(20 * 60);
    }
    expect(app.requests.length).toBeLessThanOrEqual(14);
    expect(app.requests.length).toBeGreaterThan(5);
  },
);
