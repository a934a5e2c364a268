import { Buffer } from "node:buffer";
import { type IncomingHttpHeaders, type IncomingMessage, request as plain } from "node:http";
import { request as secure } from "node:https";
import type { Readable } from "node:stream";
import { MAX_MESSAGE_BYTES } from "../messages.ts";
import { eventsOf } from "./events.ts";

/** A request for the server behind the proxy. Its headers come from a closed list. */
export type UpstreamRequest = {
  method: "POST" | "GET" | "DELETE";
  headers: Readonly<Record<string, string>>;
  body?: string | undefined;
  signal?: AbortSignal | undefined;
};

/** Headers of a client that the server gets. Keys, tokens and cookies are not among them. */
const PASSED = ["mcp-session-id", "mcp-protocol-version", "last-event-id"];
const VISIBLE = /^[\x20-\x7e]{1,1024}$/;

/** Sends a request, and returns the response without following a redirect. Rejects if there is none. */
export function send(url: URL, { method, headers, body, signal }: UpstreamRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const start = url.protocol === "https:" ? secure : plain;
    const content = body === undefined ? {} : { "content-type": "application/json" };
    const outgoing = start(url, {
      method,
      headers: {
        accept: method === "GET" ? "text/event-stream" : "application/json, text/event-stream",
        ...content,
        ...headers,
      },
      ...(signal && { signal }),
    });
    outgoing.once("response", resolve);
    outgoing.once("upgrade", (_response, socket) => {
      socket.destroy();
      reject(new Error("the server changed the protocol"));
    });
    outgoing.once("error", reject);
    outgoing.end(body);
  });
}

/** Returns those headers of a client's request that the server gets. */
export function passedHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const given = PASSED.map((name) => [name, headers[name]] as const);
  return Object.fromEntries(
    given.filter((pair): pair is [string, string] => typeof pair[1] === "string" && VISIBLE.test(pair[1])),
  );
}

/** Reads a whole body, or returns `undefined` if it is larger than one message may be. */
export async function readBody(stream: Readable): Promise<Buffer | undefined> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of stream as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > MAX_MESSAGE_BYTES) return undefined;
    parts.push(part);
  }
  return Buffer.concat(parts);
}

export function isStream({ headers }: IncomingMessage): boolean {
  return /^text\/event-stream\b/i.test(headers["content-type"] ?? "");
}

/** Returns the messages of a response, from a stream or from one body. */
export async function* messagesOf(answered: IncomingMessage): AsyncGenerator<Buffer> {
  if (isStream(answered)) {
    for await (const { data = "" } of eventsOf(answered)) if (data !== "") yield Buffer.from(data);
    return;
  }
  const body = await readBody(answered);
  if (body !== undefined && body.length > 0) yield body;
}

/** A client that followed a redirect of the server would leave the proxy. */
export function withoutRedirect(status = 502): number {
  return status >= 300 && status < 400 ? 502 : status;
}
