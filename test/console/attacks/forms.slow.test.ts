import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Page } from "../../../src/console/core/page.ts";
import { consolePages } from "../../../src/console/pages.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import type { HttpAnswer } from "../../support/http.ts";
import { formIn } from "../support/console.ts";
import { pathOf, type Seen, viewerOf, visits } from "../support/visits.ts";
import { stored } from "./stored.ts";

const HERE = { origin: "http://127.0.0.1" };
const FORM = "application/x-www-form-urlencoded";
const ELSEWHERE: Record<string, string>[] = [
  { origin: "https://attacker.example" },
  { origin: "null" },
  { origin: "http://127.0.0.1:1" },
  { origin: "http://127.0.0.1.attacker.example" },
  {},
  { ...HERE, "sec-fetch-site": "cross-site" },
  { ...HERE, "sec-fetch-site": "same-site" },
  { ...HERE, "sec-fetch-site": "none" },
  { ...HERE, "sec-fetch-site": "same-origin, cross-site" },
];
/** Pages with forms. The tests send each declared form, whether or not the page shows it. */
const pages = consolePages.filter((page) => formsOf(page).length > 0);
/**
 * Forms that only navigate or look something up. Without the right token, they do nothing else. The form
 * `stop` needs the token of a mail's link instead.
 */
const HARMLESS = ["check", "open", "renew", "stop"];

let api: TestApi;
let stranger: Seen;
beforeAll(async () => {
  api = await startApi();
  stranger = await viewerOf(api, "complete");
});
afterAll(() => api.stop());

function formsOf(page: Page): string[] {
  return "forms" in page ? Object.keys(page.forms ?? {}) : [];
}

function carries(page: Page, name: string): boolean {
  return "forms" in page && page.forms?.[name]?.carries === true;
}

/** Returns a form's fields, or only the form's name if the page does not currently show the form. */
function fieldsIn(text: string, name: string): [string, string][] {
  const isShown = text.includes(`name="form" value="${name}"`);
  if (!isShown) return [["form", name]];
  // Without a choice, this form does nothing.
  const session = name === "end_session" && /name="session_id"[^>]*value="([^"]+)"/.exec(text)?.[1];
  return [...formIn({ text }, name).pairs, ...(session ? [["session_id", session] as [string, string]] : [])];
}

function withToken(pairs: [string, string][], token: string | undefined): string {
  const kept = pairs.filter(([name]) => name !== "csrf");
  return new URLSearchParams(token === undefined ? kept : [...kept, ["csrf", token]]).toString();
}

/** Returns the cookies that a response sets, without the sign-in cookie. */
function cookiesOf({ headers }: HttpAnswer): string[] {
  return headers.getSetCookie().filter((cookie) => !cookie.includes("_sign_in="));
}

describe.each(pages.map((page) => [page.id, page] as const))("the forms of page %s", (id, page) => {
  let seen: Seen;
  let path: string;
  let text: string;
  let token: string;
  let before: Awaited<ReturnType<typeof stored>>;
  beforeAll(async () => {
    seen = await viewerOf(api, visits[id]?.viewer ?? "nobody");
    path = pathOf(id, seen);
    ({ text } = await seen.open(path));
    token = /name="csrf" value="([^"]+)"/.exec(text)?.[1] ?? "";
    before = await stored(api.db);
  });
  afterEach(async () => expect(await stored(api.db)).toEqual(before));

  const send = (body: string, headers: Record<string, string>) =>
    seen.client.call("POST", path, { body, csrf: false, headers: { "content-type": FORM, ...headers } });

  test.each(formsOf(page))("change nothing when another site submits them: %s", async (name) => {
    expect(token).toMatch(/^[\w-]{43}$/);
    const right = withToken(fieldsIn(text, name), token);
    for (const headers of ELSEWHERE) {
      const answer = await send(right, headers);
      expect([headers, answer.status, cookiesOf(answer)]).toEqual([headers, 403, []]);
    }
  });

  test.each(formsOf(page))(
    "change nothing without their token or with a different token: %s",
    async (name) => {
      const isHarmless = carries(page, name) || HARMLESS.includes(name);
      for (const wrong of [undefined, "", "x".repeat(43), stranger.client.cookie("service_csrf")]) {
        const answer = await send(withToken(fieldsIn(text, name), wrong), HERE);
        const isHeld = answer.status === 200 && answer.text.includes("Send it again?");
        // The form of a page that leads to another origin is not kept. The person gets the page again.
        const isShownAgain = "leadsTo" in page && answer.headers.get("location") === path;
        const isRefused = isHarmless || isHeld || isShownAgain || [400, 403].includes(answer.status);
        expect([wrong, isRefused, cookiesOf(answer)]).toEqual([wrong, true, []]);
      }
    },
  );

  test.each(formsOf(page))(
    "change nothing when a link or a different HTTP method requests them: %s",
    async (name) => {
      const asked = `${path}${path.includes("?") ? "&" : "?"}${withToken(fieldsIn(text, name), token)}`;
      for (const method of ["GET", "HEAD", "PUT", "DELETE", "PATCH"]) {
        const answer = await seen.client.call(method, asked, { csrf: false, headers: HERE });
        expect([method, cookiesOf(answer)]).toEqual([method, []]);
      }
    },
  );
});

test("a correctly submitted form changes stored data", async () => {
  const seen = await viewerOf(api, "complete");
  const before = await stored(api.db);
  await (await seen.open("/console")).send("sign_out");
  expect(await stored(api.db)).not.toEqual(before);
});
