import type { Clock } from "../../clock.ts";
import { ApiError } from "../../errors.ts";
import type { Exchange } from "../../http/http_call.ts";
import type { Reply } from "../../http/replies.ts";
import { readQuery } from "../../http/request_head.ts";
import type { Site, SiteDeps } from "../../http/site.ts";
import { actingFor, sameFor } from "./acting.ts";
import {
  errorReply,
  fileReply,
  pageReply,
  redirectReply,
  refusedPartReply,
  unchangedReply,
} from "./answers.ts";
import type { Assets } from "./assets.ts";
import { createFilesUnderWay } from "./files_under_way.ts";
import { readFields } from "./forms/fields.ts";
import { unansweredForm } from "./forms/kept_form.ts";
import { withRefusal } from "./forms/refusal.ts";
import { submitForm, withNotice } from "./forms/submit_form.ts";
import type { Frame } from "./layout.ts";
import { isFromHere } from "./origin.ts";
import { type Outcome, type Page, Redirect, Unchanged, type Visit } from "./page.ts";
import { ACCOUNT, CONSOLE, createFindPage, splitAccount } from "./places.ts";
import { refuseEarly } from "./session_guard.ts";
import { type Begun, beginVisit, type Requested, whoIsSignedIn } from "./visit.ts";

/** What the console is made of. */
export type ConsoleParts = {
  pages: readonly Page[];
  assets: Assets;
  clock: Clock;
  /** Who gives more credit and helps: a mail address or a URL. */
  contact?: string | undefined;
};

/** What stands where no page is. */
const NOWHERE: Page = {
  id: "nowhere",
  path: "",
  access: "public",
  operations: [],
  load: async () => Promise.reject(new ApiError("not_found")),
  title: () => "",
  render: () => {
    throw new Error("There is nothing to see here");
  },
};

/** What is known of a request whose address cannot be read. */
const NOTHING = { page: NOWHERE, params: {}, query: {}, account: undefined, sent: undefined };

/** How far a request has come. */
type UnderWay = {
  requested?: Requested;
  begun?: Begun;
  /** Whether what its form asks for has begun. */
  isSubmitted?: boolean;
};

/** The console: its pages, each answered for one request at a time, with nothing kept in between. */
export function createConsole({ pages, assets, clock, contact }: ConsoleParts) {
  return (deps: SiteDeps): Site => {
    const { inProcess, isForRole, cookies, settle, readBody, baseUrl, names } = deps;
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
        // What the page is about is gone, when its address names something.
        const isGone = outcome?.status === 404 && isNotFound && Object.keys(requested.params).length > 0;
        if (!isGone) throw error;
        return outcomeReply(frame, withNotice(await above(visit, { page, pages }), visit, page), 200);
      });
    }

    /** Why there is no page. It asks for nothing: what it would ask may be what does not answer. */
    function refuse(exchange: Exchange, underWay: UnderWay, error: ApiError): Reply {
      const { requested = { exchange, ...NOTHING }, isSubmitted = false } = underWay;
      const { visit, cookies } = underWay.begun ?? beginVisit(visitDeps, requested, undefined);
      const frame = { visit, assets, pages };
      const { sent } = requested;
      const isOutage = error.status >= 500;
      const reply =
        isOutage && sent !== undefined
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
      return settle(call, work).catch((error: ApiError) => refuse(exchange, underWay, error));
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
    { ...frame, title: page.title(visit, data), back: page.back?.(visit, data), content },
    status,
  );
}

/** Where a form leads whose page is gone with what it was about: another sending, or person, has done it. */
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

/** Whether htmx asks, for a part of the page that is open. */
function isPart({ exchange, sent }: Requested): boolean {
  return sent === undefined && exchange.request.headers["hx-request"] !== undefined;
}
