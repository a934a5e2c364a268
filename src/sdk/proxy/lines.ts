import { Buffer } from "node:buffer";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { MAX_MESSAGE_BYTES } from "./messages.ts";

const NEWLINE = 0x0a;

/**
 * Returns the lines of a stream, without empty ones. A line of more than {@link MAX_MESSAGE_BYTES} is
 * `"too_large"`, and none of its bytes are kept.
 */
export async function* linesOf(stream: Readable): AsyncGenerator<Buffer | "too_large"> {
  let parts: Buffer[] = [];
  let bytes = 0;
  const add = (part: Buffer) => {
    bytes += part.length;
    if (bytes > MAX_MESSAGE_BYTES) parts = [];
    else parts.push(part);
  };
  const take = () => {
    const line = bytes > MAX_MESSAGE_BYTES ? "too_large" : Buffer.concat(parts);
    [parts, bytes] = [[], 0];
    return line;
  };
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, from)) {
      add(chunk.subarray(from, end));
      from = end + 1;
      const line = take();
      if (line === "too_large" || line.toString("latin1").trim() !== "") yield line;
    }
    add(chunk.subarray(from));
  }
  const last = take();
  if (last === "too_large" || last.toString("latin1").trim() !== "") yield last;
}

/** Writes a line, and waits while the reader is slow. A reader that has gone gets nothing. */
export function writeLine(stream: Writable, text: string): Promise<void> {
  return writeText(stream, `${text}\n`);
}

/** Writes text, and waits while the reader is slow. A reader that has gone gets nothing. */
export async function writeText(stream: Writable, text: string): Promise<void> {
  if (!stream.writable || stream.write(text)) return;
  const gone = new AbortController();
  const stop = () => gone.abort();
  stream.once("close", stop);
  await once(stream, "drain", { signal: gone.signal }).catch(() => undefined);
  stream.off("close", stop);
}
