import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { errorMessage, faultMessage, type Message, readClientMessage } from "../messages.ts";
import type { ProxyParts } from "../session.ts";
import type { Caller, FindCaller } from "./callers.ts";
import { createRelay, respond } from "./relay.ts";
import { differs } from "./routing.ts";
import { createHttpSessions } from "./sessions.ts";
import { isStream, passedHeaders, readBody, send, withoutRedirect } from "./upstream.ts";

/** The address of the proxy, and the server behind it. */
export type HttpSettings = {
  host: string;
  port: number;
  upstream: URL;
  /** Web pages that may call the proxy. By default none, so that no page can use a local proxy. */
  origins: readonly string[];
  findCaller: FindCaller | undefined;
};

type Call = { request: IncomingMessage; response: ServerResponse; caller: Caller | undefined };

const PATH = "/mcp";
const METHODS = ["POST", "GET", "DELETE"];
const PAGE_SENDS = [
  ...["authorization", "content-type", "mcp-session-id", "mcp-protocol-version"],
  ...["mcp-method", "mcp-name", "last-event-id"],
];
const NOBODY = "nobody";
const BODY_TIMEOUT_MS = 30_000;
const KEY_NEEDED = "The proxy needs the key of an agent as a bearer token. Nothing was done.";
const NO_SESSION = "The agent has no such session. Nothing was done.";
const HEADERS_DIFFER = "The headers and the body name different methods or tools. Nothing was done.";

/** Serves MCP over HTTP in front of another server. Returns the port, and a function that stops it. */
export async function serveHttp(parts: ProxyParts, settings: HttpSettings) {
  const { upstream } = settings;
  const { journal } = parts;
  const sessions = createHttpSessions();
  const relay = createRelay(parts, sessions, upstream);

  /** Returns the caller, or responds to a request without a valid key. */
  async function authenticate(request: IncomingMessage, response: ServerResponse) {
    const [, key] = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? "") ?? [];
    const found = key === undefined ? undefined : ((await settings.findCaller?.(key)) ?? "unavailable");
    if (typeof found === "object") return { caller: found };
    if (parts.rules.mode === "observe") return { caller: undefined };
    journal.refused("no_agent_key");
    response.setHeader("www-authenticate", "Bearer");
    respond(response, found === "unavailable" ? 503 : 401, errorMessage(null, -32600, KEY_NEEDED));
    return undefined;
  }

  /** Returns the message of a request, or responds to a request without one. */
  async function readMessage({ request, response }: Call): Promise<Message | undefined> {
    if (!/^application\/json\b/i.test(request.headers["content-type"] ?? "")) {
      respond(response, 415);
      return undefined;
    }
    const body = await readBody(request);
    const message = body === undefined ? "too_large" : readClientMessage(body);
    if (typeof message === "string") {
      journal.refused(message);
      respond(response, message === "too_large" ? 413 : 400, faultMessage(message));
      return undefined;
    }
    if (!differs(request.headers, message)) return message;
    journal.refused("header_mismatch");
    respond(response, 400, errorMessage(message.id ?? null, -32600, HEADERS_DIFFER));
    return undefined;
  }

  async function post(call: Call): Promise<void> {
    const { request, response, caller } = call;
    const message = await readMessage(call);
    if (message === undefined) return;
    const headers = passedHeaders(request.headers);
    const owner = caller?.id ?? NOBODY;
    const held = sessions.find(request.headers, owner);
    if (held === "foreign") return noSession(response);
    const session = held ?? relay.sessionOf(caller?.agent, headers);
    let isForwarded = false;
    // Without a session, a closed connection cancels the call. With one, the client can resume the stream.
    const { signal } = abortOnClose(response, () => {
      if (held === undefined) session.end();
      else if (!isForwarded && message.id !== undefined) session.lose(message.id);
    });
    const { forward, reply } = await session.fromClient(message);
    isForwarded = true;
    if (reply !== undefined) return respond(response, 200, reply);
    if (forward === undefined || signal.aborted) return respond(response, 202);
    await relay.passOn({ response, session, forward, headers, owner, signal });
    if (held === undefined && message.method !== "initialize") session.end();
  }

  /** Opens the server's own stream of a session, or ends the session. */
  async function listenOrEnd({ request, response, caller }: Call): Promise<void> {
    const session = sessions.find(request.headers, caller?.id ?? NOBODY);
    if (session === undefined) return respond(response, 405);
    if (session === "foreign") return noSession(response);
    const { signal } = abortOnClose(response);
    const method = request.method === "DELETE" ? "DELETE" : "GET";
    const headers = passedHeaders(request.headers);
    const answered = await send(upstream, { method, headers, signal }).catch(() => undefined);
    if (answered === undefined) return respond(response, 502);
    if (method === "GET" && answered.statusCode === 200 && isStream(answered)) {
      return relay.stream(response, session, answered, headers);
    }
    answered.resume();
    const status = withoutRedirect(answered.statusCode);
    if (method === "DELETE" && status < 300) sessions.end(String(request.headers["mcp-session-id"]));
    respond(response, status);
  }

  /** Returns whether a request comes from no page, or from a page that `--origin` names. */
  function isPermittedPage(origin: string | undefined, response: ServerResponse): boolean {
    if (origin === undefined) return true;
    if (!settings.origins.includes(origin)) return false;
    permitPage(response, origin);
    return true;
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "", headers } = request;
    if (request.url !== PATH) return respond(response, 404);
    if (!isPermittedPage(headers.origin, response)) return respond(response, 403);
    if (!METHODS.includes(method)) return respond(response, isPreflight(request) ? 204 : 405);
    const authenticated = await authenticate(request, response);
    if (authenticated === undefined) return;
    const call = { request, response, ...authenticated };
    await (method === "POST" ? post(call) : listenOrEnd(call));
  }

  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      // The client broke off its upload, which anybody can do at any rate.
      if (request.errored !== null) return;
      journal.note("fault", { name: error instanceof Error ? error.name : "unknown" });
      respond(response, 500);
    });
  });
  server.requestTimeout = BODY_TIMEOUT_MS;
  await once(server.listen(settings.port, settings.host), "listening");
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : settings.port,
    stop() {
      server.close();
      server.closeAllConnections();
      sessions.endAll();
    },
  };
}

/** Before a page's first request, a browser asks whether the page may send it. */
function isPreflight({ method, headers }: IncomingMessage): boolean {
  return method === "OPTIONS" && headers.origin !== undefined;
}

/** Browsers let a page of another origin call the proxy only with these headers. */
function permitPage(response: ServerResponse, origin: string): void {
  response.setHeader("access-control-allow-origin", origin);
  response.setHeader("access-control-allow-methods", METHODS.join(", "));
  response.setHeader("access-control-allow-headers", PAGE_SENDS.join(", "));
  response.setHeader("access-control-expose-headers", "mcp-session-id, www-authenticate");
  response.setHeader("vary", "origin");
}

function noSession(response: ServerResponse): void {
  respond(response, 404, errorMessage(null, -32600, NO_SESSION));
}

function abortOnClose(response: ServerResponse, then?: () => void): AbortController {
  const cancel = new AbortController();
  response.once("close", () => {
    if (response.writableFinished) return;
    cancel.abort();
    then?.();
  });
  return cancel;
}
