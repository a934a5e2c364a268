import { Buffer } from "node:buffer";
import { type IncomingHttpHeaders, type IncomingMessage, request as plain } from "node:http";
import { request as secure } from "node:https";
import type { Readable } from "node:stream";
import { MAX_MESSAGE_BYTES } from "../messages.ts";

/** A request for the server behind the proxy. Its headers come from a closed list. */
export type UpstreamRequest = {
  method: "POST" | "GET" | "DELETE";
  headers: Readonly<Record<string, string>>;
  body?: string | undefined;
  signal?: AbortSignal | undefined;
};

/** One event of a stream. `data` is absent in a comment, which keeps a connection open. */
export type StreamEvent = { head: string; data: string | undefined };

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

/** Returns the events of a stream. Throws if one of them is larger than a message may be. */
export async function* eventsOf(stream: Readable): AsyncGenerator<StreamEvent> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const part of stream as AsyncIterable<Buffer>) {
    text += decoder.decode(part, { stream: true });
    const blocks = text.split(/\r?\n\r?\n/);
    text = blocks.pop() ?? "";
    if (text.length > MAX_MESSAGE_BYTES) throw new Error("an event is too large");
    for (const block of blocks) if (block.trim() !== "") yield eventOf(block);
  }
}

function eventOf(block: string): StreamEvent {
  const lines = block.split(/\r?\n/);
  const data = lines.filter((line) => line.startsWith("data:"));
  const head = lines.filter((line) => /^(id|event|retry):/.test(line)).map((line) => `${line}\n`);
  const text = data.map((line) => line.slice("data:".length).replace(/^ /, "")).join("\n");
  return { head: head.join(""), data: text === "" ? undefined : text };
}

export function isStream({ headers }: IncomingMessage): boolean {
  return /^text\/event-stream\b/i.test(headers["content-type"] ?? "");
}

/** Returns the messages of a response, from a stream or from one body. */
export async function* messagesOf(answered: IncomingMessage): AsyncGenerator<Buffer> {
  if (isStream(answered)) {
    for await (const { data } of eventsOf(answered)) if (data !== undefined) yield Buffer.from(data);
    return;
  }
  const body = await readBody(answered);
  if (body !== undefined && body.length > 0) yield body;
}
