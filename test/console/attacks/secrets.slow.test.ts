import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { consolePages } from "../../../src/console/pages.ts";
import { declaredRoutes } from "../../http/walk/documented.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { browserOf, type Shown, signIn, unescaped } from "../support/console.ts";
import { pathOf, type Seen, viewerOf, visits } from "../support/visits.ts";
import { tablesThatHold } from "./stored.ts";

const making = new Set(declaredRoutes.filter(({ showsSecret }) => showsSecret).map(({ id }) => id as string));
/** Pages that create secrets. A page that is missing in FORMS fails the test. */
const pages = consolePages.filter(({ operations }) => operations.some((id) => making.has(id)));
const FORMS: Record<string, [form: string, values: Record<string, string | string[]>]> = {
  new_platform: ["register", { name: "Shop", default_allowed_scopes: ["data:read"] }],
  connection: ["create_key", { purpose: "verify" }],
  rotate_key: ["rotate", {}],
  signing_secret: ["rotate", {}],
  customer: ["rotate", {}],
  webhook_secret: ["rotate", {}],
};

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

function secretsOn({ text }: Shown): string[] {
  return [...text.matchAll(/<div class="secret">.*?<pre [^>]*>([^<]*)<\/pre>/gs)].map(([, secret = ""]) =>
    unescaped(secret),
  );
}

/** Returns the text of all pages that links from this page reach. */
async function reachable(seen: Seen, from: string): Promise<string> {
  const known = new Set<string>();
  const waiting = ["/console", from, "/console/history", "/console/history/export?format=ndjson"];
  let text = "";
  while (waiting.length > 0 && known.size < 150) {
    const path = waiting.shift() ?? "";
    if (known.has(path)) continue;
    known.add(path);
    const shown = await seen.open(path);
    text += shown.text;
    for (const [, href = ""] of shown.text.matchAll(/<a [^>]*href="(\/console[^"#]*)"/g)) {
      waiting.push(unescaped(href));
    }
  }
  return text;
}

test("this file lists every page that creates secrets", () => {
  expect(pages.map(({ id }) => id).sort()).toEqual(Object.keys(FORMS).sort());
});

describe.each(pages.map(({ id }) => id))("a secret from page %s", (id) => {
  let seen: Seen;
  let form: Shown;
  let path: string;
  let secrets: string[];
  const [name, values] = FORMS[id] ?? ["", {}];
  beforeAll(async () => {
    seen = await viewerOf(api, visits[id]?.viewer ?? "nobody");
    path = pathOf(id, seen);
    form = await seen.open(path);
    const made = await form.send(name, values);
    expect([made.status, made.path, made.headers.get("cache-control")]).toEqual([200, path, "no-store"]);
    secrets = secretsOn(made);
    expect(secrets.length).toBeGreaterThan(0);
    for (const secret of secrets) expect(secret.length).toBeGreaterThan(30);
  });

  const expectNone = (text: string) =>
    expect(secrets.filter((secret) => unescaped(text).includes(secret))).toEqual([]);

  test("does not appear a second time if the form is sent twice more or the page is opened again", async () => {
    const again = await Promise.all([form.send(name, values), form.send(name, values)]);
    for (const shown of again) {
      expectNone(shown.text);
      expect(secretsOn(shown)).toEqual([]);
    }
    expectNone((await seen.open(path)).text);
    expectNone((await browserOf(api, seen.client).open(path)).text);
  });

  test("does not appear if a second session of the same person sends the same form", async () => {
    const { body } = await seen.client.get("/v1/auth/session");
    const other = browserOf(api);
    const held = await signIn(other, String(body.email));
    expect(held.status).toBe(200);
    const csrf = other.client.cookie("service_csrf") ?? "";
    const shown = await form.send(name, { ...values, csrf });
    expectNone(shown.text);
    const there = await other.open(path);
    const key = /name="key" value="([^"]+)"/.exec(form.text)?.[1] ?? "";
    expectNone((await there.send(name, { ...values, key })).text);
  });

  test("appears on no page that can be reached through links, in no table and in no log line", async () => {
    expectNone(await reachable(seen, path));
    for (const secret of secrets) expect(await tablesThatHold(api.db, secret)).toEqual([]);
    expectNone(api.lines.join(""));
    expectNone(await api.metrics.registry.metrics());
  });
});

test("session tokens and codes are in no table, no URL and no log line", async () => {
  const browser = browserOf(api);
  const email = "logged@example.test";
  const shown = await signIn(browser, email);
  const code = await browser.client.codeFor(email);
  const names = ["session", "csrf", "refresh", "sign_in"];
  const tokens = names.map((each) => browser.client.cookie(`service_${each}`) ?? "");
  for (const token of tokens) {
    expect(token.length).toBeGreaterThan(30);
    expect(await tablesThatHold(api.db, token)).toEqual([]);
    expect(api.lines.join("").includes(token)).toBe(false);
    expect(shown.path).not.toContain(token);
  }
  // The development mailbox logs the first line of an email, which must contain the code.
  expect(code).toMatch(/^\d{6}$/);
  expect(api.lines.filter((line) => line.includes(code) && !line.includes("mail for"))).toEqual([]);
});
