import type { Readable } from "node:stream";
import { MAX_MESSAGE_BYTES } from "../messages.ts";

/**
 * One event of a stream. `head` has its other fields, newly built. `data` is absent in a comment, which keeps
 * a connection open, and empty in an event that only tells the client where it can resume.
 */
export type StreamEvent = { head: string; data: string | undefined };

/** Clients end a line at each of these, so a server could hide a message behind one that is missing. */
const LINE_END = /\r\n|\n|\r/;
const HEAD = ["id", "event", "retry"];

/**
 * Returns the events of a stream of server-sent events, in time linear to its size. Throws if one of them is
 * larger than a message may be.
 */
export async function* eventsOf(stream: Readable): AsyncGenerator<StreamEvent> {
  let lines: string[] = [];
  let size = 0;
  for await (const line of linesOf(stream)) {
    size += line.length;
    if (size > MAX_MESSAGE_BYTES) throw new Error("an event is too large");
    if (line !== "") lines.push(line);
    else if (lines.length > 0) {
      yield eventOf(lines);
      [lines, size] = [[], 0];
    }
  }
}

async function* linesOf(stream: Readable): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let parts: string[] = [];
  let size = 0;
  let endsInReturn = false;
  for await (const bytes of stream as AsyncIterable<Buffer>) {
    const decoded = decoder.decode(bytes, { stream: true });
    const text = endsInReturn && decoded.startsWith("\n") ? decoded.slice(1) : decoded;
    if (decoded !== "") endsInReturn = decoded.endsWith("\r");
    const [first = "", ...others] = text.split(LINE_END);
    parts.push(first);
    size += first.length;
    if (size > MAX_MESSAGE_BYTES) throw new Error("a line is too large");
    if (others.length === 0) continue;
    yield parts.join("");
    const last = others.pop() ?? "";
    yield* others;
    [parts, size] = [[last], last.length];
  }
}

function eventOf(lines: readonly string[]): StreamEvent {
  const fields = lines.map(fieldOf);
  const data = fields.filter(([name]) => name === "data").map(([, value]) => value);
  const head = fields.filter(([name]) => HEAD.includes(name)).map(([name, value]) => `${name}: ${value}\n`);
  return { head: head.join(""), data: data.length === 0 ? undefined : data.join("\n") };
}

/** A comment has an empty name. */
function fieldOf(line: string): readonly [name: string, value: string] {
  const colon = line.indexOf(":");
  return colon === -1 ? [line, ""] : [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, "")];
}
