import { Buffer } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Agent } from "../../agent/create_agent.ts";
import { writeText } from "../lines.ts";
import { type ErrorMessage, errorMessage, type Message, readServerMessage } from "../messages.ts";
import { createSession, type ProxyParts, type Session } from "../session.ts";
import { eventsOf } from "./events.ts";
import { routingHeaders } from "./routing.ts";
import type { HttpSessions } from "./sessions.ts";
import { isStream, messagesOf, readBody, send, withoutRedirect } from "./upstream.ts";

type Headers = Record<string, string>;

/** A message that may pass on, and where its answer goes. */
export type Passed = {
  response: ServerResponse;
  session: Session;
  forward: Message;
  /** The headers of the request that the server gets. */
  headers: Headers;
  owner: string;
  signal: AbortSignal;
};

/** Carries messages between clients and one server over HTTP. */
export type Relay = {
  /** Creates the session of a connection. Its own requests have these headers. */
  sessionOf(agent: Agent | undefined, headers: Headers): Session;
  passOn(passed: Passed): Promise<void>;
  /** Passes a stream of the server on, message by message. */
  stream(
    response: ServerResponse,
    session: Session,
    answered: IncomingMessage,
    headers: Headers,
  ): Promise<void>;
};

const NO_STORE = { "cache-control": "no-store" };
const LOST = "The server did not answer.";
/** No client waits for these requests, so nothing else would end them. */
const OWN_TIMEOUT_MS = 30_000;

export function createRelay(parts: ProxyParts, sessions: HttpSessions, upstream: URL): Relay {
  /** Sends a message of the proxy itself. `take` gets each message of the answer. */
  async function sendOwn(
    message: Message | ErrorMessage,
    headers: Headers,
    take: (bytes: Buffer) => unknown,
  ) {
    try {
      const own = { ...headers, ...("method" in message && routingHeaders(message)) };
      const signal = AbortSignal.timeout(OWN_TIMEOUT_MS);
      const request = { method: "POST", headers: own, body: JSON.stringify(message), signal } as const;
      const answered = await send(upstream, request);
      for await (const bytes of messagesOf(answered)) take(bytes);
    } catch {
      parts.journal.note("the server did not answer");
    }
  }

  /** Returns the text for the client, and sends the session's reply to the server. */
  function passBack(session: Session, bytes: Uint8Array, headers: Headers): string | undefined {
    const read = readServerMessage(bytes);
    if (typeof read === "string") {
      parts.journal.refused(`server_${read}`);
      return undefined;
    }
    const { forward, reply } = session.fromServer(read);
    if (reply !== undefined) void sendOwn(reply, headers, () => undefined);
    return forward;
  }

  function start({ response, session, headers, owner }: Passed, sessionId: string): void {
    headers["mcp-session-id"] = sessionId;
    sessions.hold(sessionId, owner, session);
    response.setHeader("mcp-session-id", sessionId);
  }

  /** Passes a response with one message on, or with none. */
  async function passOne(
    { response, session, forward, headers }: Passed,
    answered: IncomingMessage,
    status: number,
  ): Promise<void> {
    const body = await readBody(answered).catch(() => undefined);
    const isRequest = forward.id !== undefined && forward.method !== undefined;
    if (!isRequest && status < 300) return respond(response, 202);
    const text = body && passBack(session, body, headers);
    if (text === undefined) return lose(response, session, forward, status < 400 ? 502 : status);
    response
      .writeHead(withoutRedirect(status), { "content-type": "application/json", ...NO_STORE })
      .end(text);
  }

  const relay: Relay = {
    sessionOf(agent, headers) {
      const session: Session = createSession(parts, agent, (message) => {
        void sendOwn(message, headers, (bytes) => passBack(session, bytes, headers));
      });
      return session;
    },

    async passOn(passed) {
      const { response, session, forward, headers, signal } = passed;
      const { method } = forward;
      const own = { ...headers, ...routingHeaders(forward) };
      const request = { method: "POST", headers: own, body: JSON.stringify(forward), signal } as const;
      const answered = await send(upstream, request).catch(() => undefined);
      if (answered === undefined) return lose(response, session, forward, 502);
      const { statusCode: status = 502, headers: given } = answered;
      const { "mcp-session-id": sessionId } = given;
      const isStarted = method === "initialize" && status === 200;
      if (isStarted && typeof sessionId === "string") start(passed, sessionId);
      return isStream(answered) && status === 200
        ? relay.stream(response, session, answered, headers)
        : passOne(passed, answered, status);
    },

    async stream(response, session, answered, headers) {
      response.writeHead(200, { "content-type": "text/event-stream", ...NO_STORE });
      response.flushHeaders();
      try {
        for await (const { head, data } of eventsOf(answered)) {
          const text = data && passBack(session, Buffer.from(data), headers);
          if (data === undefined) await writeText(response, ":\n\n");
          else if (text !== undefined) await writeText(response, `${head}data: ${text}\n\n`);
        }
      } catch {
        answered.destroy();
      }
      response.end();
    },
  };
  return relay;
}

/** Responds without a body of the server, and closes the request. */
function lose(response: ServerResponse, session: Session, { id, method }: Message, status: number): void {
  if (id === undefined || method === undefined) {
    respond(response, status);
    return;
  }
  session.lose(id);
  respond(response, status, errorMessage(id, -32603, LOST));
}

export function respond(response: ServerResponse, status: number, message?: Message | ErrorMessage): void {
  if (response.headersSent || response.destroyed) return;
  const type = message === undefined ? {} : { "content-type": "application/json" };
  response.writeHead(status, { ...type, ...NO_STORE });
  response.end(message === undefined ? undefined : JSON.stringify(message));
}
