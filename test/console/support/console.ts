import { readAssets } from "../../../src/console/core/assets.ts";
import { createConsole } from "../../../src/console/core/console.ts";
import type { Page } from "../../../src/console/core/page.ts";
import { ENTER_CODE, SIGN_IN } from "../../../src/console/core/places.ts";
import { consolePages } from "../../../src/console/pages.ts";
import { type ApiOptions, startApi, type TestApi } from "../../support/api.ts";
import { steeredClock } from "../../support/clock.ts";
import type { HttpAnswer, HttpClient } from "../../support/http.ts";

/** Starts the API with additional console pages. */
export async function startConsoleWith(more: readonly Page[], options: ApiOptions = {}): Promise<TestApi> {
  const clock = options.clock ?? steeredClock();
  const { assets } = readAssets("");
  const site = createConsole({ pages: [...consolePages, ...more], assets, clock, contact: undefined });
  return startApi({ ...options, clock, site });
}

/** A browser without scripts, which opens pages and sends their forms. */
export type Browser = {
  client: HttpClient;
  /** Opens a page, and follows redirects, except to other origins. */
  open(path: string): Promise<Shown>;
};

type Values = Record<string, string | readonly string[]>;

/** A page with its forms. */
export type Shown = HttpAnswer & {
  /** The page's path and query. A notice in the query appears without its proof. */
  path: string;
  /** The page's text without markup. */
  words: string;
  /** Returns the first group of `pattern`, unescaped. Throws an error with `what` if nothing matches. */
  element(what: string, pattern: RegExp): string;
  /**
   * Sends a form with values by field name. Other fields stay as they are. A list checks exactly its boxes.
   */
  send(form: string, values?: Values, headers?: Record<string, string>): Promise<Shown>;
};

/** Returns a `Browser` with a client's cookies. */
export function browserOf(api: TestApi, client = api.client()): Browser {
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
    if (location === null) return shown(path, answer);
    return URL.canParse(location) ? shown(location, answer) : follow("GET", location);
  }

  function shown(path: string, answer: HttpAnswer): Shown {
    const words = unescaped(answer.text.replaceAll(/<\/?bdi>/g, "").replaceAll(/<[^>]*>/g, " ")).replaceAll(
      /\s+/g,
      " ",
    );
    return {
      ...answer,
      path: path.replace(/(notice=\w+)\.[\w.-]+/, "$1"),
      words,
      element(what, pattern) {
        const found = pattern.exec(answer.text)?.[1];
        if (found === undefined) throw missing(`no ${what}`, { ...answer, path });
        return unescaped(found);
      },
      send(name, values = {}, headers = {}) {
        const { action, pairs } = formIn({ ...answer, path }, name);
        const kept = pairs.filter(([field]) => !Object.hasOwn(values, field));
        const filled = Object.entries(values).flatMap(([field, value]) =>
          [value].flat().map((each): [string, string] => [field, each]),
        );
        const body = new URLSearchParams([...kept, ...filled]).toString();
        return follow("POST", action || path, { body, headers });
      },
    };
  }

  return { client, open: (path) => follow("GET", path) };
}

type SentForm = { action: string; pairs: [string, string][]; fields: Record<string, string> };

type Looked = Pick<HttpAnswer, "text"> & { status?: number; path?: string };

/** Returns an error that says what the page shows instead of what a test searched for. */
function missing(what: string, { path = "the page", status = 200, text }: Looked): Error {
  const title = /<h1>(.*?)<\/h1>/s.exec(text)?.[1] ?? "no heading";
  const forms = [...text.matchAll(/name="form" value="(\w+)"/g)].map(([, form]) => form);
  const has = forms.length === 0 ? "no forms" : `the forms ${[...new Set(forms)].join(", ")}`;
  return new Error(`There is ${what} on ${path} (${status}, "${unescaped(title)}"), which has ${has}`);
}

/** Returns the URL and the fields of the last form with this name. */
export function formIn(page: Looked, name: string): SentForm {
  const { text } = page;
  const forms = [...text.matchAll(/<form [^>]*action="([^"]*)"[^>]*>(.*?)<\/form>/gs)];
  const found = forms.filter(([, , content = ""]) => content.includes(`name="form" value="${name}"`)).at(-1);
  if (found === undefined) throw missing(`no form ${name}`, page);
  const [, action = "", content = ""] = found;
  const pairs = [...content.matchAll(CONTROL)].flatMap(([, kind, attributes = "", inside]) => {
    const field = attributeOf(attributes, "name");
    const isLeft = /type="(radio|checkbox)"/.test(attributes) && !/ checked(?= |$)/.test(attributes);
    if (field === "" || isLeft) return [];
    if (kind === "textarea") return [[field, unescaped(inside?.replace(/^\n/, "") ?? "")]];
    if (kind === "input") return [[field, attributeOf(attributes, "value")]];
    const options = [...(inside ?? "").matchAll(/<option ([^>]*)>/g)].map(([, each = ""]) => each);
    const chosen = options.find((each) => / selected(?= |$)/.test(each)) ?? options[0] ?? "";
    return [[field, attributeOf(chosen, "value")]];
  }) as [string, string][];
  return { action: unescaped(action), pairs, fields: Object.fromEntries(pairs) };
}

/** Matches a form's controls. Inputs have no end tag, but the other controls do. */
const CONTROL = /<(input|textarea|select) ([^>]*)>(?:(.*?)<\/\1>)?/gs;

function attributeOf(attributes: string, name: string): string {
  return unescaped(new RegExp(`(?:^| )${name}="([^"]*)"`).exec(attributes)?.[1] ?? "");
}

/** Signs in through the pages. The first sign-in opens the account. */
export async function signIn(browser: Browser, email: string): Promise<Shown> {
  const asked = await (await browser.open(SIGN_IN)).send("send_code", { email });
  if (!asked.path.startsWith(ENTER_CODE)) throw new Error(`No code could be asked for: ${asked.words}`);
  return asked.send("verify_code", { code: await browser.client.codeFor(email) });
}

/** Returns the tags without attribute values. They are equal for pages that differ only in text. */
export function markupOf(text: string): string[] {
  return [...text.matchAll(/<[^>]*>/g)].map(([tag]) => tag.replaceAll(/"[^"]*"/g, '""'));
}

export function unescaped(text: string): string {
  return text.replaceAll(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code)));
}
