import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { consolePages } from "../../../src/console/pages.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { startChromium } from "../../support/chromium.ts";
import { HOSTILE_ADDRESSES, XSS_CORPUS } from "../../support/xss_corpus.ts";
import { markupOf, type Shown, unescaped } from "../support/console.ts";
import { program } from "../support/in_chromium.ts";
import type { Seen } from "../support/visits.ts";
import { openWindow } from "../support/window.ts";
import { allPages, everybody, FIELDS, fill } from "./hostile_world.ts";

let api: TestApi;
let viewers: Map<string, { seen: Seen; path: string }>;
let harmless: Map<string, Shown>;
beforeAll(async () => {
  api = await startApi();
  viewers = await everybody(api);
  await fill(api.db, () => "text");
  harmless = await allPages(viewers);
});
afterAll(() => api.stop());

test("every page works after attackers have filled every field, and shows the values", async () => {
  for (const [id, { status }] of harmless) expect([id, status]).toEqual([id, 200]);
  await fill(api.db, (field) => `mark of ${field}`);
  const text = [...(await allPages(viewers)).values()].map((shown) => unescaped(shown.text)).join("\n");
  const unseen = FIELDS.map(({ name }) => name).filter((name) => !text.includes(`mark of ${name}`));
  expect(unseen).toEqual([]);
});

const NAMES = ["agents.name", "platforms.name", "accounts.organization_name", "connections.customer_name"];
/** Elements whose text has a direction of its own, or that can have no elements in them. */
const ISOLATED = /<(bdi|code|title|option|textarea)\b[^>]*>.*?<\/\1>/gs;

test("every page isolates each name that others chose", async () => {
  await fill(api.db, (field) => `mark of ${field}`);
  const bare = [...(await allPages(viewers))].flatMap(([id, { text }]) => {
    const words = (text.startsWith("<!doctype") ? text : "")
      .replaceAll(ISOLATED, "")
      .replaceAll(/<[^>]*>/g, "");
    return NAMES.filter((name) => words.includes(`mark of ${name}`)).map((name) => `${id}: ${name}`);
  });
  expect(bare).toEqual([]);
});

/** Fields get several texts together, because all pages are drawn again for each test. */
const groups = [0, 1, 2, 3].map((part) => XSS_CORPUS.filter((_, index) => index % 4 === part).join(" "));

test.each(groups)(
  "every page has the same markup with %j in all fields as with harmless text",
  async (text) => {
    await fill(api.db, () => text);
    for (const [id, { status, text: shown }] of await allPages(viewers)) {
      expect([id, status]).toEqual([id, 200]);
      if (shown.startsWith("<!doctype")) {
        expect([id, markupOf(shown)]).toEqual([id, markupOf(harmless.get(id)?.text ?? "")]);
      }
    }
  },
);

const OURS = /^([#?]|\/(console|v1)([/?]|$)|mailto:)/;
/** The only link to an application: its registered redirect URI, for a person who declines to connect. */
const DECLINES = /^https:\/\/[\w-]+\.example\.com\/connected\?error=access_denied&/;

test.each(HOSTILE_ADDRESSES)("no page links to %j", async (text) => {
  await fill(api.db, () => text);
  const addresses = /(?:href|src|action|formaction|hx-get|hx-post|data-renew)="([^"]*)"/g;
  for (const [id, { text: shown }] of await allPages(viewers)) {
    const leads = [...shown.matchAll(addresses)].map(([, address = ""]) => unescaped(address));
    const strange = leads.filter((each) => !OURS.test(each) && !(id === "connect" && DECLINES.test(each)));
    expect([id, strange]).toEqual([id, []]);
  }
});

describe.skipIf(program === undefined)("attackers' text in Chromium (needs Debian's chromium)", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startChromium(program ?? "");
    const all = XSS_CORPUS.join(" ");
    await fill(api.db, () => all);
  });
  afterAll(() => browser?.close());

  test.each(consolePages.filter((page) => !("file" in page)).map(({ id }) => id))(
    "runs no script on page %s",
    async (id) => {
      const { seen, path } = viewers.get(id) ?? { seen: undefined, path: "" };
      const look = { width: 1440, theme: "light" } as const;
      const window = await openWindow(browser, api, { client: seen?.client, look });
      window.page.on("dialog", (dialog) => window.complaints.push(dialog.message()));
      await window.page.goto(`${api.url}${path}`);
      await window.page.waitForLoadState("networkidle");
      expect(await window.page.evaluate("globalThis.stolen")).toBeUndefined();
      expect([window.page.url().startsWith(`${api.url}/`), window.complaints]).toEqual([true, []]);
      await window.close();
    },
  );
});
