import type { IncomingMessage } from "node:http";
import { parseCookie, parseSetCookie, stringifyCookie } from "cookie";
import { codeClient, signInCookie } from "../../accounts/sign_in/sign_in_mails.ts";
import type { Clock } from "../../clock.ts";
import { ApiError } from "../../errors.ts";
import { html } from "../../html/html.ts";
import type { Cookies } from "../../http/cookies.ts";
import type { Exchange } from "../../http/http_call.ts";
import type { InProcess, SiteDeps } from "../../http/in_process.ts";
import type { Names } from "../../input/names.ts";
import { rootOf } from "../../input/url.ts";
import type { CookieName } from "../../route.ts";
import { texts } from "../texts/texts.ts";
import type { Call, OperationId } from "./calls.ts";
import { browserToken, type Fields } from "./forms.ts";
import { keptForm } from "./kept_forms.ts";
import { type Outcome, type Page, themes, type Visit } from "./page.ts";
import { ACCOUNT, actingFor, CONSOLE, consolePath, powersOf, RENEW, withQuery } from "./places.ts";

/** Browsers keep a cookie for at most 400 days (RFC 6265bis §5.5). */
const THEME_SECONDS = 400 * 24 * 60 * 60;
/** Values of `Sec-Fetch-Site` from browsers that do not come from a page of this origin. */
const CAME_FROM_ELSEWHERE = new Set(["none", "cross-site", "same-site"]);

type VisitDeps = {
  inProcess: InProcess;
  isForRole: SiteDeps["isForRole"];
  cookies: Cookies;
  clock: Clock;
  /** The base URL's path, without a trailing slash. */
  root: string;
  baseUrl: string;
  names: Names;
  /** The contact for more credit and help: an email address or a URL. */
  contact: string | undefined;
};

/** A request for a page, after its URL and body were read. */
export type Requested = {
  exchange: Exchange;
  page: Page;
  params: Record<string, string>;
  query: Record<string, string | undefined>;
  account: string | undefined;
  /** The submitted form's fields. Undefined if no form was submitted. */
  sent: Fields | undefined;
};

/** A visit, and the cookies that its calls set. */
export type Begun = { visit: Visit; cookies: string[] };

/** Creates the visit of the signed-in person, or of somebody who is not signed in. */
export function beginVisit(deps: VisitDeps, requested: Requested, session: Visit["session"]): Begun {
  const { exchange, page, params, query, account } = requested;
  const cookies: string[] = [];
  const fresh = new Map<string, string>();
  const keep = (values: readonly string[]) => {
    cookies.push(...values);
    for (const { name, value } of values.map((each) => parseSetCookie(each))) fresh.set(name, value ?? "");
  };
  const cookie = (name: CookieName): string | undefined => {
    const set = fresh.get(deps.cookies.nameOf(name));
    return set === undefined
      ? deps.cookies.readUnique(exchange.request.headers.cookie, name)
      : set || undefined;
  };
  const call = createCall(deps, requested, keep);
  const path = new URL(exchange.request.url ?? "/", "http://console").pathname;
  const own: Visit["own"] = (to, asked) => withQuery(`${deps.root}${to}`, asked);
  const acting = actingFor(session, account);
  const visit: Visit = {
    params,
    query,
    call,
    may: (id, who = acting) => deps.isForRole(id, powersOf(session, who)),
    acting,
    contact: deps.contact,
    session,
    account,
    texts,
    now: deps.clock.now(),
    at: (to, asked) => own(consolePath(account, to), asked),
    own,
    outside: {
      url: (to) => `${rootOf(deps.baseUrl)}${deps.names.paths(to)[0]}`,
      header: deps.names.header,
    },
    here: own(path, query),
    path,
    cookie,
    theme: themes.find((theme) => theme === cookie("theme")),
    keepTheme: (theme) =>
      keep(deps.cookies.write({ name: "theme", value: theme ?? "", maxAgeSeconds: THEME_SECONDS })),
    isNew: CAME_FROM_ELSEWHERE.has(String(exchange.request.headers["sec-fetch-site"])),
    formToken: "",
    failure: undefined,
    renewed: async () => {
      const cookies = { ...parseCookie(exchange.request.headers.cookie ?? ""), ...Object.fromEntries(fresh) };
      return { ...visit, session: await whoIsSignedIn(deps.inProcess, withCookies(exchange, cookies)) };
    },
  };
  if (page.boundTo === "browser") {
    if (cookie("sign_in") === undefined) keep(deps.cookies.write(signInCookie(codeClient(undefined))));
    visit.formToken = browserToken(cookie("sign_in") ?? "");
  } else {
    visit.formToken = cookie("csrf") ?? "";
  }
  return { visit, cookies };
}

function withCookies(exchange: Exchange, cookies: Record<string, string | undefined>): Exchange {
  const { headers, socket } = exchange.request;
  const request = { headers: { ...headers, cookie: stringifyCookie(cookies) }, socket } as IncomingMessage;
  return { ...exchange, request };
}

/** Returns the session of the person who sent the request. Returns `undefined` if nobody is signed in. */
export async function whoIsSignedIn(inProcess: InProcess, exchange: Exchange): Promise<Visit["session"]> {
  try {
    const { body } = await inProcess(exchange, "get_session");
    return body as Visit["session"];
  } catch (error) {
    if (error instanceof ApiError && error.code === "auth_required") return undefined;
    throw error;
  }
}

function createCall(
  { inProcess }: VisitDeps,
  { exchange, page, account, sent }: Requested,
  keep: (cookies: readonly string[]) => void,
): Call {
  const declared = new Set<OperationId>(page.operations);
  return async (id, { once, ...input } = {}) => {
    if (!declared.has(id)) throw new Error(`The page ${page.id} does not declare that it calls ${id}`);
    const { body, cookies } = await inProcess(exchange, id, {
      ...input,
      account,
      csrf: sent?.get("csrf"),
      idempotencyKey: once === true ? sent?.get("key") : undefined,
    });
    keep(cookies);
    return body as never;
  };
}

/** Returns the page to show instead if the person has no session or has not completed onboarding. */
export function refuseEarly(visit: Visit, { page, sent }: Requested): Outcome | undefined {
  const { session } = visit;
  if (page.access === "public") return undefined;
  const here = visit.here.slice(visit.own("").length);
  if (session === undefined) {
    if (sent !== undefined) return keptForm({ page, visit }, sent, "ended");
    return { to: visit.own(RENEW, { return_to: here }) };
  }
  if (page.access === "onboarded" && session.onboarding_step !== "complete") {
    const step = session.onboarding_step === "profile" ? "name" : "account";
    const return_to = here === CONSOLE ? undefined : here;
    return { to: visit.own(`${CONSOLE}/welcome/${step}`, { return_to }) };
  }
  if (page.access === "signed_in" || page.about === "person" || page.about === "installation") {
    return undefined;
  }
  const [first] = page.operations;
  if (visit.acting !== undefined && first !== undefined && !visit.may(first)) throw new ApiError("forbidden");
  return refuseStranger(visit, sent !== undefined);
}

/** Returns the page to show instead if the person is not a member of the account. */
function refuseStranger(visit: Visit, isForm: boolean): Outcome | undefined {
  const { acting, account, own, texts } = visit;
  const words = texts.acting;
  if (acting !== undefined) return undefined;
  // A person who left the organization may still act for other accounts. Their form has no effect.
  if (account === undefined && !isForm) return { to: own(ACCOUNT) };
  return {
    title: words.strangerTitle,
    content: html`<p>${words.stranger}</p>
      <p><a class="button" href=${own(ACCOUNT)}>${words.yourAccounts}</a></p>`,
  };
}
