import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { addSeconds } from "../../../src/clock.ts";
import { texts } from "../../../src/console/texts/texts.ts";
import { eventKinds } from "../../../src/events/kinds.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { insertDelivery } from "../../support/deliveries.ts";
import { XSS_CORPUS } from "../../support/xss_corpus.ts";
import { markupOf, unescaped } from "../support/console.ts";
import { copied } from "../support/shell.ts";
import { type RealReceiver, realReceiver } from "./real_receiver.ts";
import { ofConnection, sendingViewer } from "./sending_viewer.ts";

let api: TestApi;
let own: RealReceiver;
beforeAll(async () => {
  api = await startApi();
});
beforeEach(async () => {
  await api.db("rate_limits").delete();
  own = await realReceiver(api);
});
afterEach(() => own.receiver.close());
afterAll(() => api.stop());

const rowsOf = (text: string) => text.match(/<tr role="row"><th scope="row"/g)?.length ?? 0;
const insert = (secondsAgo: number, change: object = {}) =>
  insertDelivery(api.db, own.connectionId, { at: addSeconds(api.clock.now(), -secondsAgo), ...change });
/** Rotates the key, and lets the worker send the event. */
async function rotateKey() {
  await own.person.client.post(`/v1/service/connections/${own.connectionId}/rotate-key`);
  await own.harness.run();
}

describe("the list of deliveries", () => {
  test("has a text for every kind of event", () => {
    expect(Object.keys(texts.deliveries.events).sort()).toEqual(Object.keys(eventKinds).sort());
  });

  test("names the customer to which an event belongs, and no customer for other events", async () => {
    const { open, customer, ids } = await sendingViewer(api);
    const { words } = await open(ofConnection("deliveries")(ids));
    expect(words.match(/Customer [0-9a-f-]{36}/g)).toEqual([`Customer ${customer.person.accountId}`]);
    const one = await open(ofConnection(`deliveries/${ids.delivery}`)(ids));
    for (const id of [customer.person.accountId, customer.connectionId]) expect(one.words).toContain(id);
  });

  test("shows the newest deliveries first, page by page", async () => {
    for (let nth = 0; nth < 27; nth += 1) await insert(1_000 - nth, { attempts: nth });
    const first = await own.browser.open(own.at("deliveries"));
    expect(rowsOf(first.text)).toBe(25);
    const attempts = [...first.text.matchAll(/data-label="Attempts">(\d+)</g)].map(([, number]) =>
      Number(number),
    );
    expect(attempts).toEqual(Array.from({ length: 25 }, (_, place) => 26 - place));
    const second = await own.browser.open(
      first.element("link to the next page", /rel="next" href="([^"]*)"/),
    );
    expect(rowsOf(second.text)).toBe(2);
    expect(second.text).not.toContain('rel="next"');
  });

  test("has filters for state, event and time, where a time without a zone is UTC", async () => {
    await insert(7_200, { state: "failed" });
    await insert(3_600, { state: "delivered", event_type: "callback.test" });
    await insert(60, { state: "rejected" });
    const rows = async (query: string) =>
      rowsOf((await own.browser.open(`${own.at("deliveries")}?${query}`)).text);
    const minute = (secondsAgo: number) =>
      addSeconds(api.clock.now(), -secondsAgo).toISOString().slice(0, 16);
    expect(await rows("state=&event=&since=&until=")).toBe(3);
    expect(await rows("state=failed")).toBe(1);
    expect(await rows("event=callback.test")).toBe(1);
    expect(await rows(`since=${minute(4_000)}&until=${minute(1_000)}`)).toBe(1);
    expect(await rows(`since=${minute(4_000)}Z`)).toBe(2);
    const inKolkata = new Date(Date.parse(`${minute(4_000)}Z`) + 19_800_000).toISOString().slice(0, 16);
    expect(await rows(new URLSearchParams({ since: `${inKolkata}+05:30` }).toString())).toBe(2);
    const wrong = await own.browser.open(`${own.at("deliveries")}?since=yesterday`);
    expect(wrong.text).toMatch(
      /id="filter-since-fault">Give a day and a time[^<]*<\/p>\s*<input [^>]*value="yesterday"/,
    );
    const kept = await own.browser.open(`${own.at("deliveries")}?since=2026-03-01T09:30:00.000Z`);
    expect(kept.text).toContain('value="2026-03-01T09:30"');
    expect(kept.words).toContain("Made from (UTC)");
  });

  test("updates itself only while a delivery is in progress", async () => {
    const list = () => own.browser.open(own.at("deliveries"));
    expect((await list()).words).toContain("There are no such deliveries.");
    const pending = await insert(10, { state: "pending" });
    expect((await list()).text).toContain('hx-trigger="every 5s"');
    await api
      .db("webhook_deliveries")
      .where({ delivery_id: pending })
      .update({ next_attempt_at: addSeconds(api.clock.now(), 3_600) });
    expect((await list()).text).not.toContain("hx-trigger");
    await insert(10, { state: "sending" });
    expect((await list()).text).toContain('hx-trigger="every 5s"');
  });
});

describe("the page about a delivery", () => {
  test("shows what was sent and each attempt, and sends the delivery again", async () => {
    own.receiver.reply = (_, response) => void response.writeHead(422).end("unknown connection");
    await rotateKey();
    const list = await own.browser.open(own.at("deliveries"));
    expect(list.words).toMatch(/The API key was replaced .* Rejected .* 1 Rejected, HTTP 422/);
    const path = list.element("link to a delivery", /<th scope="row"[^>]*><a href="([^"]+)"/);
    const shown = await own.browser.open(path);
    const [sent] = own.receiver.requests;
    expect(copied(shown, "body")).toBe(sent?.body);
    expect(shown.words).toContain(sent?.deliveryId);
    expect(shown.words).toMatch(/Attempt 1 .*Rejected HTTP 422.*The receiver refuses.*unknown connection/);
    for (const header of ["x-service-signature", "webhook-signature"]) {
      for (const value of String(sent?.headers[header])
        .split(/[ ,]/)
        .filter((text) => text.length > 4)) {
        expect(shown.text).not.toContain(value);
      }
    }
    own.receiver.reply = () => 204;
    const resent = await shown.send("resend");
    expect(resent.words).toContain("The delivery is being sent.");
    expect(resent.text).toContain('hx-trigger="every 3s"');
    expect((await shown.send("resend")).words).toContain("The delivery is being sent.");
    await own.harness.run();
    expect(
      own.receiver.requests.map(({ deliveryId, body, faults }) => ({ deliveryId, body, faults })),
    ).toEqual(Array(2).fill({ deliveryId: sent?.deliveryId, body: sent?.body, faults: [] }));
    const done = await own.browser.open(path);
    expect(done.words).toMatch(/Delivered The receiver answered 2xx.*Attempt 2.*Attempt 1/);
  });

  test("sends a delivery that waits for a retry now", async () => {
    own.receiver.reply = () => 500;
    await rotateKey();
    const [failed] = await own.harness.deliveries(own.connectionId);
    const id = failed?.deliveryId ?? "";
    await api
      .db("webhook_deliveries")
      .where({ delivery_id: id })
      .update({ next_attempt_at: addSeconds(api.clock.now(), 3_600) });
    own.receiver.reply = () => 204;
    const shown = await own.browser.open(own.at(`deliveries/${id}`));
    expect(shown.text).not.toContain("Send it again");
    expect((await shown.send("resend")).words).toContain("The delivery is being sent.");
    await own.harness.run();
    expect((await own.browser.open(shown.path)).words).toMatch(/Delivered .*Attempt 2.*Attempt 1/);
  });

  test("says why the delivery cannot be sent again", async () => {
    const pageOf = async (change: object) =>
      own.browser.open(own.at(`deliveries/${await insert(60, change)}`));
    expect((await pageOf({ state: "pending" })).words).toContain("It is tried again automatically.");
    expect((await pageOf({ state: "held" })).words).toContain("Resume or set the callback, and it is sent.");
    expect((await pageOf({ state: "cancelled" })).words).toContain("Its body was erased, so");
    const boxed = { state: "delivered", event_type: "connection.created", body: null };
    const secret = await pageOf(boxed);
    expect(secret.words).toContain("It carries secrets, such as an API key.");
    expect(secret.words).toContain("Its body was erased once it was delivered");
    const limit = await pageOf({ state: "failed", attempts: 50 });
    const refused = await limit.send("resend");
    expect([refused.status, refused.words]).toEqual([409, expect.stringContaining("50 attempts")]);
    const failed = await pageOf({ state: "failed" });
    await own.person.client.post(`/v1/service/connections/${own.connectionId}/callback/pause`);
    expect((await own.browser.open(failed.path)).words).toContain(
      "neither paused nor suspended. See the callback",
    );
    expect((await failed.send("resend")).status).toBe(409);
    expect(own.receiver.requests).toEqual([]);
  });

  test("does not exist for other accounts", async () => {
    const { ids, open } = await sendingViewer(api);
    expect((await open(ofConnection(`deliveries/${ids.delivery}`)(ids))).status).toBe(200);
    expect((await own.browser.open(own.at(`deliveries/${ids.delivery}`))).status).toBe(404);
    expect((await own.browser.open(ofConnection(`deliveries/${ids.delivery}`)(ids))).status).toBe(404);
    expect((await own.browser.open(own.at("deliveries/nonsense"))).status).toBe(404);
  });

  test.each(XSS_CORPUS)("escapes the receiver's response: %j", async (answered) => {
    const pageOf = async (text: string) => {
      const { ids, open } = await sendingViewer(api, { answered: text });
      return open(ofConnection(`deliveries/${ids.delivery}`)(ids));
    };
    const [hostile, plain] = [await pageOf(answered), await pageOf("text")];
    expect(markupOf(hostile.text)).toEqual(markupOf(plain.text));
    const visible = answered.replaceAll(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
    expect(unescaped(hostile.text)).toContain(visible);
  });
});
