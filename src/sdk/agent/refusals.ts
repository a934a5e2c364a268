import { setTimeout as sleep } from "node:timers/promises";
import { type AgentError, refusalError } from "./errors.ts";

const MOST_BYTES = 65_536;

type Limits = { invocationId: string; timeoutMs: number; signal: AbortSignal | undefined };

/**
 * Returns the error of a guard's refusal, or else the application's response with its whole body. It reads
 * only the code and the id of a denial, and only a code that guards send with this status. It must name this
 * invocation, because an application can relay the refusal of another call after it has acted. A challenge or
 * an operation in the body has no effect. Reads at most 64 KiB, for at most `timeoutMs`. Throws the signal's
 * reason.
 */
export async function readRefusal(response: Response, limits: Limits): Promise<AgentError | Response> {
  const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
  if (![403, 503].includes(response.status) || !isJson || response.body === null) return response;
  const { text, rest } = await startOf(response.body.getReader(), limits);
  const refusal = text && refusalOf(text, response.status, limits.invocationId);
  if (refusal) return refusal;
  const { status, statusText, headers, url } = response;
  return Object.defineProperty(new Response(rest, { status, statusText, headers }), "url", { value: url });
}

function refusalOf(text: Buffer, responseStatus: number, invocationId: string): AgentError | undefined {
  try {
    const json: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(text));
    const { error, invocation_id, evaluation_id } = Object(json) as Record<string, unknown>;
    const { code, status } = Object(error) as { code?: unknown; status?: unknown };
    const expected = code === "verification_unavailable" || code === "invocation_conflict" ? 503 : 403;
    const isOwn = invocation_id === invocationId;
    if (!isOwn || status !== expected || responseStatus !== expected) return undefined;
    return refusalError(code, invocationId, evaluation_id);
  } catch {
    return undefined;
  }
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/**
 * Returns the whole text if it ends within the limits, and a stream of all bytes. A tee of the body would
 * wait for a reader of its other branch.
 */
async function startOf(
  reader: Reader,
  { timeoutMs, signal }: Limits,
): Promise<{ text: Buffer | undefined; rest: ReadableStream<Uint8Array> }> {
  const chunks: Uint8Array[] = [];
  const timer = new AbortController();
  const end = AbortSignal.any([timer.signal, ...(signal ? [signal] : [])]);
  const timeUp = sleep(timeoutMs, undefined, { signal: end }).catch(() => undefined);
  let next = readNext(reader);
  let [bytes, text]: [number, Buffer | undefined] = [0, undefined];
  while (bytes <= MOST_BYTES) {
    const read = await Promise.race([next, timeUp]);
    if (signal?.aborted === true) {
      reader.cancel(signal.reason).catch(() => undefined);
      throw signal.reason;
    }
    if (read?.done === true) text = Buffer.concat(chunks);
    if (read?.value === undefined) break;
    chunks.push(read.value);
    bytes += read.value.length;
    next = readNext(reader);
  }
  timer.abort();
  const rest = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const read = chunks.shift();
        if (read !== undefined) return controller.enqueue(read);
        const { value, error } = await next;
        if (error !== undefined) controller.error(error);
        else if (value === undefined) controller.close();
        else {
          controller.enqueue(value);
          next = readNext(reader);
        }
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
  return { text, rest };
}

type Read = { done?: boolean; value?: Uint8Array | undefined; error?: unknown };

/** Never rejects, because nobody may wait for the chunk. */
function readNext(reader: Reader): Promise<Read> {
  return reader.read().catch((error: unknown) => ({ error: error ?? new Error("the body ended early") }));
}
