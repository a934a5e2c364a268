import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { startApi, type TestApi } from "../../support/api.ts";
import { addMember } from "../../support/members.ts";
import { errorCode, registerPlatform } from "../../support/platform_world.ts";
import { HOSTILE_ADDRESSES, XSS_CORPUS } from "../../support/xss_corpus.ts";
import { browserOf, markupOf } from "../support/console.ts";
import { closedPort, type RealReceiver, realReceiver } from "./real_receiver.ts";

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

const open = () => own.browser.open(own.at("callback"));
const urlOf = async () =>
  (await own.person.client.get(`/v1/service/connections/${own.connectionId}/callback`)).body.callback_url;

/** Sends a test event from the page, lets the worker deliver it, and opens its result. */
async function tested() {
  const asked = await (await open()).send("test");
  expect(asked.words).toContain("On its way");
  expect(asked.text).toContain('hx-trigger="every 2s"');
  await own.harness.run();
  return own.browser.open(asked.path);
}

describe("the page of a callback", () => {
  test("lets a person set the URL for events, and shows errors at the field", async () => {
    const refused = await (await open()).send("set", { callback_url: "https://user:word@shop.example.com/" });
    expect(refused.status).toBe(400);
    expect(refused.text).toMatch(
      /id="set-callback_url-fault">It must not contain a user name or password\.<\/p>\s*<input [^>]*value="https:\/\/user:word@shop\.example\.com\/"/,
    );
    const saved = await refused.send("set", { callback_url: " https://shop.example.com/new " });
    expect(saved.words).toContain("The callback URL is saved.");
    expect(await urlOf()).toBe("https://shop.example.com/new");
    const cleared = await saved.send("clear");
    expect(cleared.words).toContain("The callback URL is removed.");
    expect(cleared.words).toContain("Not set");
    expect(cleared.words).toContain("A test needs a callback URL");
    expect(await urlOf()).toBeNull();
  });

  test("says that a private address is refused if private addresses are not allowed", async () => {
    const closed = await startApi({ config: { DEVELOPMENT: false, WEBHOOK_ALLOWED_CIDRS: [] } });
    const person = await closed.person();
    const { connectionId } = await registerPlatform(person);
    const page = await browserOf(closed, person.client).open(`/console/connections/${connectionId}/callback`);
    for (const [url, fault] of [
      ["http://shop.example.com/", "The scheme must be https."],
      ["https://10.0.0.1/", "The host must be a name that is not this machine&#39;s own."],
      ["nonsense", "Not a URL of at most 2048 characters."],
    ]) {
      const refused = await page.send("set", { callback_url: url ?? "" });
      expect(refused.text).toContain(`id="set-callback_url-fault">${fault}</p>`);
    }
    await closed.stop();
  });

  test("sends a test event, and shows that the receiver accepted it", async () => {
    own.receiver.reply = (_, response) => void response.writeHead(200).end("thank you");
    const result = await tested();
    expect(own.receiver.requests).toMatchObject([{ event: { event: "callback.test" }, faults: [] }]);
    expect(result.words).toMatch(/Delivered The receiver answered 2xx.*Accepted HTTP 200.*\d+ ms.*thank you/);
    expect(result.text).not.toContain('hx-trigger="every 2s"');
    expect((await open()).words).toMatch(/Latest tests .* Delivered Accepted, HTTP 200/);
  });

  test("shows the response of a failing receiver, and what to check", async () => {
    own.receiver.reply = (_, response) => void response.writeHead(500).end("no database");
    const failed = await tested();
    expect(failed.words).toMatch(/Failed HTTP 500.*Look at what it answered.*no database/);
    const state = await open();
    expect(state.words).toMatch(/Failing .*does not accept what is sent.* Since \d/);
    own.receiver.reply = () => 401;
    expect((await tested()).words).toMatch(
      /Rejected HTTP 401.*the signature is wrong.*The answer had no text/,
    );
  });

  test("shows that no response came in time, or that nothing listens", async () => {
    own.receiver.reply = () => {
      api.clock.advance(1.5);
      return undefined;
    };
    expect((await tested()).words).toMatch(/No answer.* 1\.5 s.*No answer came within 15 seconds/);
    await (await open()).send("set", { callback_url: `http://127.0.0.1:${await closedPort()}/` });
    expect((await tested()).words).toMatch(/No answer.*Nothing listens at that host and port/);
  });

  test("sends one test event for a form that is sent twice, and reports too many tests", async () => {
    const page = await open();
    const [one, two] = [await page.send("test"), await page.send("test")];
    expect(one.path).toBe(two.path);
    for (let nth = 2; nth <= 5; nth += 1) await (await open()).send("test");
    const refused = await (await open()).send("test");
    expect([refused.status, refused.words]).toEqual([429, expect.stringContaining("Too many test events")]);
    await own.harness.run();
    expect(own.receiver.requests).toHaveLength(5);
  });

  test("lets a person pause and resume the callback, and sends or drops held events as selected", async () => {
    const paused = await (await open()).send("pause");
    expect(paused.words).toMatch(/The callback is paused\. .* Paused .* Since \d/);
    const test = (body: object = {}) =>
      own.person.client.post(`/v1/service/connections/${own.connectionId}/rotate-key`, body);
    await test();
    await own.harness.run();
    expect(own.receiver.requests).toEqual([]);
    const held = await open();
    expect(held.words).toContain("Held 1");
    expect((await held.send("resume")).words).toContain("The callback is active again.");
    await own.harness.run();
    expect(own.receiver.requests).toMatchObject([{ event: { event: "connection.key_rotated" } }]);
    await (await open()).send("pause");
    await test();
    await own.harness.run();
    await (await open()).send("resume", { backlog: "discard" });
    await own.harness.run();
    expect(own.receiver.requests).toHaveLength(1);
  });

  test("shows since when and why the callback is suspended, and how to fix that", async () => {
    own.receiver.reply = () => 410;
    const gone = await tested();
    expect(gone.words).toContain("Gone HTTP 410");
    expect(gone.words).toMatch(/Suspended .*The receiver answered 410.* Since \d/);
    expect(gone.words).toContain("A test needs a callback URL that is neither paused nor suspended");
    own.receiver.reply = () => 204;
    expect((await gone.send("resume")).words).toContain("Works Events are sent as they happen.");
    await api
      .db("webhook_endpoints")
      .where({ connection_id: own.connectionId })
      .update({ state: "suspended", suspended_at: api.clock.now(), suspend_reason: "failing" });
    expect((await open()).words).toContain("The receiver accepted nothing for 120 hours.");
  });

  test("offers no actions to an auditor, and does not open for approvers or for other accounts", async () => {
    const organization = await api.person({ organization_name: "Analytical Engines" });
    const fields = { callback_url: "https://shop.example.com/hook" };
    const { connectionId } = await registerPlatform(organization, fields, "/v1/service/platforms");
    const seenBy = async (role: "developer" | "auditor" | "approver") => {
      const { client } = await addMember(api, organization.accountId, role);
      const base = `/console/for/${organization.accountId}/connections/${connectionId}`;
      return Promise.all(
        ["callback", "webhook-secret", "deliveries", "recoveries"].map((part) =>
          browserOf(api, client).open(`${base}/${part}`),
        ),
      );
    };
    const formsOf = (pages: { text: string }[]) =>
      pages.flatMap(({ text }) => [...text.matchAll(/name="form" value="(\w+)"/g)].map(([, form]) => form));
    const signOut = Array(4).fill("sign_out");
    expect(formsOf(await seenBy("developer")).filter((form) => form !== "sign_out")).toEqual([
      ...["set", "clear", "test", "pause", "rotate"],
    ]);
    const audited = await seenBy("auditor");
    expect(audited.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(formsOf(audited)).toEqual(signOut);
    expect(audited[3]?.text).not.toContain('name="look"');
    expect((await seenBy("approver")).map(({ status }) => status)).toEqual([403, 403, 403, 403]);
    const stranger = browserOf(api, (await api.person()).client);
    expect((await stranger.open(`/console/connections/${connectionId}/callback`)).status).toBe(404);
  });

  test("escapes the receiver's response", async () => {
    const answered = async (text: string) => {
      own.receiver.reply = (_, response) => void response.writeHead(500).end(text);
      const { text: shown } = await tested();
      return shown.replace(/[\s\S]*<section class="card" id="test"/, "").replace(/<\/section>[\s\S]*/, "");
    };
    const plain = await answered("text");
    const hostile = await answered(XSS_CORPUS.join("\n"));
    expect(markupOf(hostile).map((tag) => tag.replace(" open", ""))).toEqual(
      markupOf(plain).map((tag) => tag.replace(" open", "")),
    );
    expect(hostile).toContain("&#60;script&#62;globalThis.stolen = 1&#60;/script&#62;");
  });

  test("makes no link from a URL, whether or not the API accepts the URL", async () => {
    for (const address of HOSTILE_ADDRESSES) {
      const shown = await (await open()).send("set", { callback_url: address });
      expect([200, 400]).toContain(shown.status);
      expect(shown.text).not.toMatch(/href="[^"/#?]/);
    }
  });

  test("escapes a hostile URL and name", async () => {
    const pageOf = async (name: string, url: string) => {
      const person = await api.person();
      const { connectionId } = await registerPlatform(person, { name, callback_url: url });
      return browserOf(api, person.client).open(`/console/connections/${connectionId}/callback`);
    };
    const plain = await pageOf("Shop", "https://shop.example.com/");
    const name = '"><script>globalThis.stolen = 1</script>';
    const hostile = await pageOf(name, `https://shop.example.com/?q="><script>globalThis.stolen=1</script>`);
    expect(markupOf(hostile.text)).toEqual(markupOf(plain.text));
    expect(errorCode(hostile)).toBeUndefined();
  });
});
