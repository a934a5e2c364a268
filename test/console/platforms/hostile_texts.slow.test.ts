import { afterAll, beforeAll, expect, test } from "vitest";
import { isPlainText } from "../../../src/input/plain_text.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { HOSTILE_ADDRESSES, XSS_CORPUS } from "../../support/xss_corpus.ts";
import { markupOf, type Shown } from "../support/console.ts";
import type { Seen } from "../support/visits.ts";
import { platformViewer } from "./platform_viewer.ts";

let api: TestApi;
let plain: Shown[];
beforeAll(async () => {
  api = await startApi();
  plain = await pagesOf(await platformViewer(api));
});
afterAll(() => api.stop());

async function pagesOf({ open, ids }: Seen): Promise<Shown[]> {
  const [platform, connection] = [
    `/console/platforms/${ids.platform}`,
    `/console/connections/${ids.connection}`,
  ];
  return Promise.all(
    [
      "/console/platforms",
      platform,
      ...["/change", "/accepted", "/adoption"].map((suffix) => `${platform}${suffix}`),
      connection,
      ...["/rotate-key", "/change", "/remove"].map((suffix) => `${connection}${suffix}`),
      "/console/clusters",
    ].map((path) => open(path)),
  );
}

const taken = XSS_CORPUS.filter((text) => isPlainText(text));

test.each(taken)("pages escape a member's text: %j", async (text) => {
  const seen = await platformViewer(api, { name: text, description: text, verifier: text, username: text });
  const pages = await pagesOf(seen);
  for (const [place, shown] of pages.entries()) {
    expect([shown.path, shown.status]).toEqual([shown.path, 200]);
    expect(markupOf(shown.text)).toEqual(markupOf(plain[place]?.text ?? "no page"));
  }
  const { platform, connection } = seen.ids;
  expect((await seen.client.get(`/v1/service/platforms/${platform}`)).body.name).toBe(text);
  expect((await seen.client.get(`/v1/service/connections/${connection}`)).body.verifier_id).toBe(text);
});

test("only one of the hostile texts is refused by the API", () => {
  expect(XSS_CORPUS.length - taken.length).toBe(1);
});

test("a refused form escapes the entered text", async () => {
  const seen = await platformViewer(api);
  const opened = await seen.open("/console/platforms/new");
  for (const text of XSS_CORPUS) {
    const name = { name: text, description: text, default_allowed_scopes: text, callback_url: text };
    const [hostile, harmless] = [
      await opened.send("register", name),
      await opened.send("register", {
        name: "a",
        description: "a",
        default_allowed_scopes: "a",
        callback_url: "a",
      }),
    ];
    expect([hostile.status, harmless.status]).toEqual([400, 400]);
    const inForm = (shown: Shown) =>
      markupOf(shown.text).filter((tag) => !/^<\/?p|^<input|^<textarea/.test(tag));
    expect(inForm(hostile)).toEqual(inForm(harmless));
    expect(hostile.text).not.toContain(text.includes("<") ? text : "<script>g");
  }
});

test("pages show a callback URL as text without a link", async () => {
  for (const url of ["https://shop.example.com/a?b=%22%3E%3Cscript%3E&c='", ...HOSTILE_ADDRESSES]) {
    const seen = await platformViewer(api);
    const connection_id = seen.ids.connection ?? "";
    const path = `/v1/service/connections/${connection_id}/callback`;
    const answer = await seen.client.call("PUT", path, { body: { callback_url: url } });
    // An earlier version may have stored a value that the API now refuses.
    if (answer.status !== 200) {
      await api.db("connections").where({ connection_id }).update({ callback_url: url });
    }
    const { text } = await seen.open(`/console/connections/${seen.ids.connection}`);
    expect(text).not.toMatch(/href="(?!#content")[^/]/);
    expect(text).not.toContain("<script>g");
  }
});
