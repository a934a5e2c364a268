import type { Clock } from "../../clock.ts";
import { ApiError } from "../../errors.ts";
import type { Exchange } from "../../http/exchange/finish_exchange.ts";
import type { Reply } from "../../http/exchange/replies.ts";
import { readQuery } from "../../http/request/query.ts";
import type { Site, SiteDeps } from "../../http/site.ts";
import { errorReply, pageReply, redirectReply } from "./answers.ts";
import type { Assets } from "./assets.ts";
import { readFields } from "./fields.ts";
import type { Frame } from "./layout.ts";
import { isFromHere } from "./origin.ts";
import { type Outcome, type Page, Redirect } from "./page.ts";
import { CONSOLE, createFindPage, splitAccount } from "./places.ts";
import { refuseEarly } from "./session_guard.ts";
import { submitForm } from "./submit_form.ts";
import { type Begun, beginVisit, type Requested, whoIsSignedIn } from "./visit.ts";

/** What the console is made of. */
export type ConsoleParts = { pages: readonly Page[]; assets: Assets; clock: Clock };

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

/** The console: its pages, each answered for one request at a time, with nothing kept in between. */
export function createConsole({ pages, assets, clock }: ConsoleParts) {
  return (deps: SiteDeps): Site => {
    const { inProcess, cookies, conclude, readBody, baseUrl } = deps;
    const root = new URL(baseUrl).pathname.replace(/\/+$/, "");
    const visitDeps = { inProcess, cookies, clock, root };
    const findPage = createFindPage(pages);
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

    async function show({ visit }: Begun, requested: Requested): Promise<Reply> {
      const { page, sent } = requested;
      const frame = { visit, assets, pages, page };
      const early = refuseEarly(visit, requested);
      // A part of a page that brings itself up to date is left as it is.
      if (early !== undefined && isPart(requested)) return { status: 204, headers: {}, body: "" };
      if (early !== undefined) return outcomeReply(frame, early, 403);
      const outcome = sent === undefined ? undefined : await submitForm(page, visit, sent);
      if (outcome !== undefined && !("failure" in outcome)) return outcomeReply(frame, outcome, 200);
      visit.failure = outcome?.failure;
      const data = await page.load(visit);
      const [title, content] = [page.title(visit, data), page.render(visit, data)];
      return pageReply({ ...frame, title, content }, outcome?.status);
    }

    async function answer(exchange: Exchange): Promise<Reply> {
      const work = async () => {
        const requested = await requestOf(exchange);
        const begun = beginVisit(visitDeps, requested, await whoIsSignedIn(inProcess, exchange));
        const reply = await show(begun, requested).catch((error: unknown) => {
          if (error instanceof Redirect) return redirectReply(error.to);
          if (error instanceof ApiError) return errorReply({ ...begun, assets, pages }, error);
          throw error;
        });
        return { ...reply, cookies: begun.cookies };
      };
      const call = { requestId: exchange.id.logged, route: "console" };
      return conclude(call, work).catch(async (error: ApiError) => {
        const requested = {
          exchange,
          page: NOWHERE,
          params: {},
          query: {},
          account: undefined,
          sent: undefined,
        };
        // What failed may be finding out who is signed in.
        const session = await whoIsSignedIn(inProcess, exchange).catch(() => undefined);
        const { visit } = beginVisit(visitDeps, requested, session);
        return errorReply({ visit, assets, pages }, error);
      });
    }

    return {
      id: "console",
      serves: (path) => path === CONSOLE || path.startsWith(`${CONSOLE}/`) || others.has(path),
      answer,
    };
  };
}

function outcomeReply(frame: Omit<Frame, "title" | "content">, outcome: Outcome, status: number): Reply {
  return "to" in outcome ? redirectReply(outcome.to) : pageReply({ ...frame, ...outcome }, status);
}

/** Whether htmx asks, for a part of the page that is open. */
function isPart({ exchange, sent }: Requested): boolean {
  return sent === undefined && exchange.request.headers["hx-request"] !== undefined;
}
