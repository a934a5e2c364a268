import type { KubeConfig, RequestContext } from "@kubernetes/client-node";
import type { Dispatcher } from "undici";
import { errorOfAnswer, errorOfTransport } from "./cluster_error.ts";

type Options = {
  server: string;
  /** Used in errors. */
  resource: string;
  path: string;
  query: Readonly<Record<string, string>>;
  headers: Readonly<Record<string, string>>;
  dispatcher: Dispatcher;
  /** Ends the watch, even before the API server has answered. */
  signal: AbortSignal;
  onAnswer(status: number): void;
  /** If `onEvent` throws, the watch ends and `runWatch` throws that error. */
  onEvent(event: unknown): void;
};

/** Upper limit for a line. An object in a cluster has at most 1.5 MiB. */
const MAX_LINE_LENGTH = 16 * 1024 * 1024;
const MAX_REFUSAL_LENGTH = 64 * 1024;
/** The longest delay that a timer supports. */
const NEVER_MS = 2 ** 31 - 1;

/**
 * Watches with client-node's `Watch` until the API server ends the watch. Throws a `ClusterError` for every
 * failure, except for an error of `onEvent`, which it throws unchanged.
 *
 * Version 2.0.1 of the library skips unreadable lines, splits lines at U+2028, accepts lines of any length,
 * and reports only the status of a refusal. Therefore the dispatcher passes only complete lines of JSON to
 * the library, and handles refusals itself.
 */
export async function runWatch(options: Options): Promise<void> {
  const { server, path, query, resource, signal, onEvent } = options;
  const { KubeConfig, Watch } = await import("@kubernetes/client-node");
  const ended = Promise.withResolvers<void>();
  const stopped = new AbortController();
  const fail = (error: unknown) => {
    if (stopped.signal.aborted) return;
    stopped.abort(error);
    ended.reject(error);
  };
  const failure = (error: unknown) => fail(errorOfTransport({ verb: "watch", resource }, error));
  const end = () => failure(signal.reason);
  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  const config: KubeConfig = new KubeConfig();
  config.loadFromClusterAndUser({ name: "cluster", server, skipTLSVerify: false }, { name: "user" });
  config.applySecurityAuthentication = async (context: RequestContext) => {
    for (const [name, value] of Object.entries(options.headers)) context.setHeaderParam(name, value);
    context.setDispatcher(options.dispatcher.compose(guard({ ...options, stopped: stopped.signal, fail })));
  };
  const watch = new Watch(config);
  // Disables the library's limit of 30 s of silence: a quiet cluster sends only one bookmark a minute.
  Object.assign(watch, { requestTimeoutMs: NEVER_MS });
  const take = (_type: string, _object: unknown, event: unknown) => {
    if (stopped.signal.aborted) return;
    try {
      onEvent(event);
    } catch (error) {
      fail(error);
    }
  };
  try {
    const done = (error: unknown) => (error ? failure(error) : ended.resolve());
    watch.watch(path, { ...query }, take, done).catch(failure);
    await ended.promise;
  } finally {
    signal.removeEventListener("abort", end);
  }
}

type Guard = Options & { stopped: AbortSignal; fail(error: unknown): void };

/** Creates an interceptor that passes on only complete lines of JSON, and ends the request with the watch. */
function guard({ resource, onAnswer, stopped, fail }: Guard): Dispatcher.DispatcherComposeInterceptor {
  const call = { verb: "watch", resource } as const;
  return (dispatch) => (request, handler) => {
    const read = createLineReader();
    let refusal: { status: number; retryAfter: string | undefined; text: string } | undefined;
    return dispatch(request, {
      onRequestStart(controller, context) {
        const abort = () => controller.abort(stopped.reason);
        stopped.addEventListener("abort", abort, { once: true });
        handler.onRequestStart?.(controller, context);
        if (stopped.aborted) abort();
      },
      onResponseStart(controller, status, headers, message) {
        if (status < 200) return;
        onAnswer(status);
        if (status < 300) {
          handler.onResponseStart?.(controller, status, headers, message);
          return;
        }
        const retryAfter = headers["retry-after"];
        refusal = { status, text: "", retryAfter: typeof retryAfter === "string" ? retryAfter : undefined };
      },
      onResponseData(controller, chunk) {
        if (refusal !== undefined) {
          refusal.text = `${refusal.text}${chunk}`.slice(0, MAX_REFUSAL_LENGTH);
          return;
        }
        try {
          for (const line of read(chunk)) handler.onResponseData?.(controller, Buffer.from(line));
        } catch (error) {
          fail(errorOfTransport(call, error));
        }
      },
      onResponseEnd(controller, trailers) {
        if (refusal !== undefined) fail(errorOfAnswer(call, { ...refusal, body: decoded(refusal.text) }));
        handler.onResponseEnd?.(controller, trailers);
      },
      onResponseError: (controller, error) => handler.onResponseError?.(controller, error),
    });
  };
}

/**
 * Creates a reader that splits chunks into lines of JSON, and keeps an incomplete line for the next chunk.
 * The reader throws `SyntaxError` for a line that is too long or not JSON.
 */
function createLineReader(): (chunk: Uint8Array) => string[] {
  const decoder = new TextDecoder();
  let rest = "";
  return (chunk) => {
    const lines = decoder.decode(chunk, { stream: true }).split("\n");
    lines[0] = rest + lines[0];
    rest = lines.pop() ?? "";
    if (rest.length > MAX_LINE_LENGTH) throw new SyntaxError("a line is too long");
    const whole = lines.filter((line) => line.trim() !== "");
    for (const line of whole) JSON.parse(line);
    return whole.map((line) => `${line.replace(/[\u2028\u2029]/g, escaped)}\n`);
  };
}

function escaped(separator: string): string {
  return separator === "\u2028" ? "\\u2028" : "\\u2029";
}

/** Parses JSON; returns `undefined` if the text is not JSON. */
export function decoded(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
