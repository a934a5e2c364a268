import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { consolePages } from "../../../src/console/pages.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import type { HttpAnswer } from "../../support/http.ts";
import { HOSTILE_ADDRESSES, XSS_CORPUS } from "../../support/xss_corpus.ts";
import { markupOf } from "../support/console.ts";
import { pathOf, readerOf, type Seen, viewerOf } from "../support/visits.ts";
import { stored } from "./stored.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

function expectGuarded({ headers, status }: HttpAnswer, of: string): void {
  const said = (name: string) => headers.get(name) ?? "";
  expect([of, status, said("content-security-policy")]).toEqual([
    of,
    status,
    expect.stringMatching(/^default-src 'none'.*frame-ancestors 'none'/),
  ]);
  expect([of, said("cache-control"), said("x-content-type-options")]).toEqual([of, "no-store", "nosniff"]);
  expect([of, said("referrer-policy")]).toEqual([of, expect.stringMatching(/^(same-origin|no-referrer)$/)]);
  expect([of, said("access-control-allow-origin"), said("server"), said("x-powered-by")]).toEqual([
    of,
    "",
    "",
    "",
  ]);
}

/** One URL sets all of these query parameters to the hostile value. */
const PARAMETERS = [
  ...["notice", "return_to", "email", "format", "status", "state", "decision", "cursor", "before", "since"],
  ...["until", "agent_id", "connection_id", "delegation", "test", "look"],
];
const HOSTILE = [
  ...["constructor", "__proto__", "toString", "9".repeat(400), "\ud800", "%00", "\r\nx: y", "../.."],
  ...HOSTILE_ADDRESSES,
  ...XSS_CORPUS.slice(0, 3),
];
const OWN_PATH = /^\/(console|v1\/auth)([/?]|$)/;

describe.each(consolePages.map((page) => [page.id, page] as const))("page %s", (id, page) => {
  let seen: Seen;
  let path: string;
  let plain: HttpAnswer;
  beforeAll(async () => {
    seen = await readerOf(api, id);
    path = pathOf(id, seen);
    plain = await seen.client.get(path);
  });

  /** Returns the cookies that a page sets. A page before sign-in may set the sign-in cookie. */
  const cookiesOf = ({ headers }: HttpAnswer) =>
    headers.getSetCookie().filter((each) => page.boundTo !== "browser" || !each.includes("_sign_in="));

  test("cannot be framed or cached, and viewing it sets no cookie and changes nothing", async () => {
    const before = await stored(api.db);
    expectGuarded(plain, "GET");
    expectGuarded(await seen.client.call("HEAD", path), "HEAD");
    for (const headers of [
      { "hx-request": "true" },
      { "sec-fetch-site": "cross-site" },
      { origin: "null" },
    ]) {
      const answer = await seen.client.call("GET", path, { headers });
      expectGuarded(answer, JSON.stringify(headers));
      expect([headers, cookiesOf(answer)]).toEqual([headers, []]);
    }
    expect(await stored(api.db)).toEqual(before);
  });

  test("treats every value of its query parameters as plain text", async () => {
    const before = await stored(api.db);
    for (const value of HOSTILE) {
      const query = new URLSearchParams(PARAMETERS.map((name) => [name, value]));
      const answer = await seen.client.get(`${path.split("?")[0]}?${query}`);
      expectGuarded(answer, value);
      expect([value, [200, 303, 400, 404].includes(answer.status)]).toEqual([value, true]);
      const location = answer.headers.get("location") ?? "/console";
      expect([value, location]).toEqual([value, expect.stringMatching(OWN_PATH)]);
      if ("file" in page) continue;
      const notice = new URLSearchParams({ notice: value });
      const said = await seen.client.get(`${path}${path.includes("?") ? "&" : "?"}x=1&${notice}`);
      if (!path.includes("notice=")) {
        expect([value, markupOf(said.text)]).toEqual([value, markupOf(plain.text)]);
      }
      expect(answer.text).not.toMatch(
        /(href|src|action|hx-get|hx-post)="(javascript|data|vbscript|blob|file|view-source|\/\/|\/\\)/i,
      );
    }
    expect(await stored(api.db)).toEqual(before);
  });
});

test.each(HOSTILE_ADDRESSES)("no page redirects a signed-in person to %j", async (value) => {
  const { client } = await viewerOf(api, "complete");
  for (const { id, path } of consolePages.filter((each) => !each.path.includes("{"))) {
    const { headers } = await client.get(`${path}?${new URLSearchParams({ return_to: value })}`);
    const location = headers.get("location") ?? "/console";
    expect([id, location]).toEqual([id, expect.stringMatching(OWN_PATH)]);
  }
});
