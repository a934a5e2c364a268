import type { IncomingHttpHeaders } from "node:http";
import type { Clock } from "../../clock.ts";
import { createKeyCounts } from "../../concurrency/key_counts.ts";
import { ApiError, rateLimited } from "../../errors.ts";
import type { Exchange } from "../../http/http_call.ts";
import type { Site, SiteDeps } from "../../http/in_process.ts";
import type { Reply } from "../../http/replies.ts";
import { readQuery } from "../../http/request_head.ts";
import type { Assets } from "./assets.ts";
import { readFields } from "./forms.ts";
import { keepsForms, unansweredForm } from "./kept_forms.ts";
import {
  errorReply,
  type Frame,
  fileReply,
  pageReply,
  redirectReply,
  refusedPartReply,
  unchangedReply,
} from "./layout.ts";
import { type Outcome, type Page, Redirect, Unchanged, type Visit, withRefusal } from "./page.ts";
import { ACCOUNT, actingFor, CONSOLE, createFindPage, sameFor, splitAccount } from "./places.ts";
import { submitForm, withNotice } from "./submit_form.ts";
import { type Begun, beginVisit, type Requested, refuseEarly, whoIsSignedIn } from "./visit.ts";

/** Dependencies of the console. */
export type ConsoleParts = {
  pages: readonly Page[];
  assets: Assets;
  clock: Clock;
  /** The contact for more credit and help: an email address or a URL. */
  contact?: string | undefined;
};

/** Stands for the page of an unknown URL. */
const NOWHERE: Page = {
  id: "nowhere",
  path: "",
  access: "public",
  operations: [],
  load: async () => Promise.reject(new ApiError("not_found")),
  title: () => "",
  render: () => {
    throw new Error("The page for unknown addresses cannot be rendered");
  },
};

/** The request data to use if the URL cannot be read. */
const NOTHING = { page: NOWHERE, params: {}, query: {}, account: undefined, sent: undefined };

type UnderWay = {
  requested?: Requested;
  begun?: Begun;
  isSubmitted?: boolean;
};

/** Creates the console. It handles each request separately and keeps nothing between requests. */
export function createConsole({ pages, assets, clock, contact }: ConsoleParts) {
  return (deps: SiteDeps): Site => {
    const { inProcess, isForRole, cookies, runCall, readBody, baseUrl, names } = deps;
    const root = new URL(baseUrl).pathname.replace(/\/+$/, "");
    const visitDeps = { inProcess, isForRole, cookies, clock, root, contact, baseUrl, names };
    const findPage = createFindPage(pages);
    const takeFile = createFilesUnderWay();
    const others = new Set(pages.map(({ path }) => path).filter((path) => !path.startsWith(CONSOLE)));

    async function requestOf(exchange: Exchange): Promise<Requested> {
      const { request } = exchange;
      const url = request.url ?? "/";
      const { account, path } = splitAccount(url.split("?")[0] ?? "/");
      const found = findPage(path) ?? { page: NOWHERE, params: {} };
      const isForm = request.method === "POST";
      if (!isForm && request.method !== "GET" && request.method !== "HEAD") {
        throw new ApiError("method_not_allowed", undefined, { allow: "GET, HEAD, POST" });
      }
      if (isForm && !isFromHere(request.headers, baseUrl)) {
        throw new ApiError("csrf_failed");
      }
      const sent = isForm ? readFields(request.headers["content-type"], await readBody(exchange)) : undefined;
      return { exchange, ...found, query: readQuery(url), account, sent };
    }

    async function show(underWay: UnderWay, { visit }: Begun, requested: Requested): Promise<Reply> {
      const { page, sent } = requested;
      const frame = { visit, assets, pages, page };
      const early = refuseEarly(visit, requested);
      if (early !== undefined && isPart(requested)) return refusedPartReply(visit);
      if (early !== undefined) return outcomeReply(frame, early, 403);
      underWay.isSubmitted = sent !== undefined;
      const outcome = sent === undefined ? undefined : await submitForm(page, visit, sent);
      if (outcome !== undefined && !("failure" in outcome)) return outcomeReply(frame, outcome, 200);
      visit.failure = outcome?.failure;
      takeFile(requested, visit.session?.account_id);
      return pageOf(frame, page, outcome?.status).catch(async (error: unknown) => {
        const isNotFound = error instanceof ApiError && error.code === "not_found";
        // Parameters in the URL name the page's subject, so `not_found` means that the subject no longer
        // exists.
        const isGone = outcome?.status === 404 && isNotFound && Object.keys(requested.params).length > 0;
        if (!isGone) throw error;
        return outcomeReply(frame, withNotice(await above(visit, { page, pages }), visit, page), 200);
      });
    }

    /** Returns the error page, which calls no operation: that operation may be the one that failed. */
    function refuse(exchange: Exchange, underWay: UnderWay, error: ApiError): Reply {
      const { requested = { exchange, ...NOTHING }, isSubmitted = false } = underWay;
      const { visit, cookies } = underWay.begun ?? beginVisit(visitDeps, requested, undefined);
      const frame = { visit, assets, pages };
      const { page, sent } = requested;
      const isOutage = error.status >= 500;
      const reply =
        isOutage && sent !== undefined && keepsForms(page)
          ? pageReply({ ...frame, ...unansweredForm({ visit, sent, isSubmitted, error }) }, error.status)
          : errorReply(frame, error);
      return { ...reply, headers: { ...reply.headers, ...error.headers }, cookies };
    }

    async function answer(exchange: Exchange): Promise<Reply> {
      const underWay: UnderWay = {};
      const work = async () => {
        const requested = await requestOf(exchange);
        underWay.requested = requested;
        const begun = beginVisit(visitDeps, requested, await whoIsSignedIn(inProcess, exchange));
        underWay.begun = begun;
        const reply = await show(underWay, begun, requested).catch((error: unknown) => {
          if (error instanceof Redirect) return redirectReply(error.to);
          if (error instanceof Unchanged) return unchangedReply();
          if (error instanceof ApiError) return refuse(exchange, underWay, error);
          throw error;
        });
        return { ...reply, cookies: begun.cookies };
      };
      const call = { requestId: exchange.id.logged, route: "console" };
      return runCall(call, work).catch((error: ApiError) => refuse(exchange, underWay, error));
    }

    return {
      id: "console",
      serves: (path) => path === CONSOLE || path.startsWith(`${CONSOLE}/`) || others.has(path),
      answer,
    };
  };
}

async function pageOf(frame: Omit<Frame, "title" | "content">, page: Page, status?: number): Promise<Reply> {
  const { visit } = frame;
  const data = await page.load(visit);
  if ("file" in page) return fileReply(page.file(visit, data));
  const content = withRefusal(visit, page.render(visit, data));
  return pageReply(
    {
      ...frame,
      title: page.title(visit, data),
      back: page.back?.(visit, data),
      leadsTo: page.leadsTo?.(visit, data),
      content,
    },
    status,
  );
}

/** Returns where the browser goes if another submission or person has already performed the form's action. */
async function above(visit: Visit, places: { page: Page; pages: readonly Page[] }): Promise<Outcome> {
  const { session } = await visit.renewed();
  const acting = actingFor(session, visit.account);
  const to = acting === undefined ? visit.own(ACCOUNT) : sameFor(acting, visit, places);
  return { to, notice: "done_already" };
}

function outcomeReply(frame: Omit<Frame, "title" | "content">, outcome: Outcome, status: number): Reply {
  if ("to" in outcome) return redirectReply(outcome.to);
  return pageReply({ ...frame, ...outcome }, outcome.status ?? status);
}

function isPart({ exchange, sent }: Requested): boolean {
  return sent === undefined && exchange.request.headers["hx-request"] !== undefined;
}

/**
 * Returns whether a page of this origin sent the form. Relies on `Sec-Fetch-Site`, which no page can set, or
 * else on `Origin`. Returns false for a request without these headers.
 */
function isFromHere(headers: IncomingHttpHeaders, baseUrl: string): boolean {
  const site = headers["sec-fetch-site"];
  if (site !== undefined) return site === "same-origin";
  return headers.origin !== undefined && headers.origin === new URL(baseUrl).origin;
}

/** Maximum concurrent downloads of one person. Part of each file is in memory until the person has it. */
export const MAX_CONCURRENT_FILES = 3;
const AGAIN_MS = 10_000;

/** Counts a download until the response ends. Call this function before the file is created. */
type TakeFile = (requested: Requested, person: string | undefined) => void;

/** Throws `rate_limited` if a person is already downloading {@link MAX_CONCURRENT_FILES} files. */
function createFilesUnderWay(): TakeFile {
  const counts = createKeyCounts();
  return ({ page, exchange: { response } }, person) => {
    if (!("file" in page) || person === undefined) return;
    if (!counts.enter(person, MAX_CONCURRENT_FILES)) {
      throw rateLimited(
        `You are already downloading ${MAX_CONCURRENT_FILES} files: wait until one is complete`,
        AGAIN_MS,
      );
    }
    if (response.destroyed) counts.leave(person);
    else response.once("close", () => counts.leave(person));
  };
}
