import { readAssets } from "../../../src/console/core/assets.ts";
import { createConsole } from "../../../src/console/core/console.ts";
import type { Page } from "../../../src/console/core/page.ts";
import { ENTER_CODE, SIGN_IN } from "../../../src/console/core/places.ts";
import { consolePages } from "../../../src/console/pages.ts";
import { steeredClock } from "../../support/clock.ts";
import type { HttpAnswer, HttpClient } from "../../support/http.ts";
import { type PlatformApi, type PlatformOptions, startPlatformApi } from "../../support/platform_world.ts";

const { assets, serve } = readAssets("");

/** The API with the console, and perhaps pages of a test's own. */
export function startConsole(
  options: PlatformOptions & { consolePages?: readonly Page[] } = {},
): Promise<PlatformApi> {
  const clock = options.clock ?? steeredClock();
  const pages = [...consolePages, ...(options.consolePages ?? [])];
  return startPlatformApi({
    ...options,
    clock,
    pages: [serve],
    site: createConsole({ pages, assets, clock }),
  });
}

/** A browser without scripts: a client that opens pages and sends the forms that are on them. */
export type Browser = {
  client: HttpClient;
  /** Opens a page, and follows redirects. */
  open(path: string): Promise<Shown>;
};

/** A page, and the way to send its forms. */
export type Shown = HttpAnswer & {
  /** The path of the page, with its query. */
  path: string;
  /** Its text without markup. */
  words: string;
  /** Fills a form in, by the fields' names, and sends it; what is not named stays as it is on the page. */
  send(form: string, values?: Record<string, string>, headers?: Record<string, string>): Promise<Shown>;
};

/** Such a browser on a client's cookies. */
export function browserOf(api: PlatformApi, client = api.client()): Browser {
  const origin = { origin: "http://127.0.0.1" };

  async function follow(
    method: string,
    path: string,
    sent?: { body: string; headers: Record<string, string> },
  ): Promise<Shown> {
    const headers = {
      ...(sent && { ...origin, "content-type": "application/x-www-form-urlencoded" }),
      ...sent?.headers,
    };
    const answer = await client.call(method, path, {
      headers,
      csrf: false,
      ...(sent && { body: sent.body }),
    });
    const location = answer.headers.get("location");
    return location === null ? shown(path, answer) : follow("GET", location);
  }

  function shown(path: string, answer: HttpAnswer): Shown {
    const words = unescaped(answer.text.replaceAll(/<[^>]*>/g, " ")).replaceAll(/\s+/g, " ");
    return {
      ...answer,
      path,
      words,
      send(name, values = {}, headers = {}) {
        const { action, fields } = formIn(answer.text, name);
        const body = new URLSearchParams({ ...fields, ...values }).toString();
        return follow("POST", action || path, { body, headers });
      },
    };
  }

  return { client, open: (path) => follow("GET", path) };
}

/** The last form of this name on a page: where it is sent, and what is in it. */
export function formIn(text: string, name: string): { action: string; fields: Record<string, string> } {
  const forms = [...text.matchAll(/<form [^>]*action="([^"]*)"[^>]*>(.*?)<\/form>/gs)];
  const found = forms.filter(([, , content = ""]) => content.includes(`name="form" value="${name}"`)).at(-1);
  if (found === undefined) throw new Error(`There is no form ${name}`);
  const [, action = "", content = ""] = found;
  const inputs = [...content.matchAll(/<input ([^>]*)>/g)].map(([, attributes = ""]) => attributes);
  const of = (attributes: string, key: string) =>
    new RegExp(`(?:^| )${key}="([^"]*)"`).exec(attributes)?.[1] ?? "";
  const sent = inputs.filter((each) => !each.includes('type="radio"') || / checked/.test(each));
  return {
    action: unescaped(action),
    fields: Object.fromEntries(sent.map((each) => [of(each, "name"), unescaped(of(each, "value"))])),
  };
}

/** Signs in by the pages; the first time, the account is opened. */
export async function signIn(browser: Browser, email: string): Promise<Shown> {
  const asked = await (await browser.open(SIGN_IN)).send("send_code", { email });
  if (!asked.path.startsWith(ENTER_CODE)) throw new Error(`No code could be asked for: ${asked.words}`);
  return asked.send("verify_code", { code: await browser.client.codeFor(email) });
}

/** A page's markup without what is in it: two pages that differ in text alone have the same. */
export function markupOf(text: string): string[] {
  return [...text.matchAll(/<[^>]*>/g)].map(([tag]) => tag.replaceAll(/"[^"]*"/g, '""'));
}

export function unescaped(text: string): string {
  return text.replaceAll(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code)));
}
