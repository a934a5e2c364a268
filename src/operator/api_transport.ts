import { readFile } from "node:fs/promises";
import { Agent, type Dispatcher, request } from "undici";
import { type ZodType, z } from "zod";
import type { Clock } from "../clock.ts";
import { type ErrorCode, errorCodes } from "../errors.ts";

/**
 * Why a call to the API failed:
 * - `refused`: the API refused the request, with one of its error codes. If it was carried out too often,
 *   `retryAfterMs` is the time until the API carries it out again.
 * - `unavailable`: the API, or a service that it depends on, is unavailable.
 * - `unauthorized`: the API does not accept the operator's token.
 * - `superseded`: a newer leader has claimed an epoch.
 * - `unrecorded`: the API was not called, because the cluster did not accept the record of the cluster id.
 *
 * Messages are human-readable and contain no secret.
 */
export type ApiFailure =
  | { kind: "refused"; code: ErrorCode; message: string; retryAfterMs?: number }
  | { kind: "unavailable"; message: string; retryAfterMs?: number }
  | { kind: "unauthorized"; message: string }
  | { kind: "superseded"; message: string }
  | { kind: "unrecorded"; message: string };

/** The value that a call returned, or the reason why the call failed. */
export type ApiResult<T> = { value: T; failure?: never } | { value?: never; failure: ApiFailure };

type Call<T> = {
  /** Name of the call in metrics. */
  name: string;
  method: "PUT" | "POST" | "DELETE";
  path: string;
  body?: unknown;
  answer: ZodType<T>;
  /** Epoch of the calling leader. Absent until the leader has claimed an epoch. */
  epoch?: number | undefined;
};

type Transport = {
  /** Returns within the deadline, and never rejects. */
  send<T>(call: Call<T>): Promise<ApiResult<T>>;
  close(): Promise<void>;
};

type Options = {
  baseUrl: string;
  tokens: TokenSource;
  clusterId: string;
  deadlineMs: number;
  /** Returns the W3C `traceparent` header of the current trace, if there is one. */
  traceparent?: (() => string | undefined) | undefined;
  /** Called after every call. `result` is `ok` or the kind of failure. */
  onAnswer?: ((call: string, result: "ok" | ApiFailure["kind"], seconds: number) => void) | undefined;
};

const MAX_RETRY_AFTER_SECONDS = 3600;
/** Wait after `action_limited` without a usable `Retry-After`. */
const LIMITED_MS = 600_000;

const errorAnswer = z.object({ error: z.object({ code: z.string(), message: z.string() }) });

/** Creates a transport to the API at `baseUrl`. All calls share its keep-alive connections. */
export function createTransport(options: Options): Transport {
  const { baseUrl, tokens, clusterId, deadlineMs, traceparent, onAnswer } = options;
  const dispatcher = new Agent({ allowH2: false, connections: 16, keepAliveTimeout: 30_000 });

  async function exchange<T>({ method, path, body, answer, epoch }: Call<T>): Promise<ApiResult<T>> {
    const trace = traceparent?.();
    const response = await request(new URL(path, baseUrl), {
      method,
      dispatcher,
      signal: AbortSignal.timeout(deadlineMs),
      headers: {
        accept: "application/json",
        authorization: `Bearer ${await tokens.current()}`,
        "x-deputize-cluster": clusterId,
        ...(trace === undefined ? {} : { traceparent: trace }),
        ...(epoch === undefined ? {} : { "x-deputize-epoch": String(epoch) }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.body.text();
    if (response.statusCode >= 300) return { failure: failureOf(response, text) };
    const result = answer.safeParse(parsed(text));
    if (result.success) return { value: result.data };
    return { failure: unavailable(`the answer to ${method} has an unknown form`) };
  }

  async function attempt<T>(call: Call<T>): Promise<ApiResult<T>> {
    try {
      const result = await exchange(call);
      if (result.failure?.kind === "unauthorized") tokens.forget();
      return result;
    } catch (error) {
      return { failure: unavailable(causeOf(error)) };
    }
  }

  return {
    async send(call) {
      const begun = performance.now();
      const result = await attempt(call);
      onAnswer?.(call.name, result.failure?.kind ?? "ok", (performance.now() - begun) / 1000);
      return result;
    },
    close: () => dispatcher.destroy(),
  };
}

function failureOf({ statusCode, headers }: Dispatcher.ResponseData, text: string): ApiFailure {
  const body = errorAnswer.safeParse(parsed(text));
  const code = body.success ? body.data.error.code : undefined;
  const message = body.success ? body.data.error.message : `it answered ${statusCode}`;
  if (code === "operator_unauthorized") return { kind: "unauthorized", message };
  if (code === "stale_epoch") return { kind: "superseded", message };
  const retryAfter = retryAfterMs(headers["retry-after"]);
  if (code === undefined || !isErrorCode(code) || isPassing(statusCode, code)) {
    return unavailable(message, retryAfter);
  }
  const refused = { kind: "refused", code, message } as const;
  return code === "action_limited" ? { ...refused, retryAfterMs: retryAfter ?? LIMITED_MS } : refused;
}

/**
 * Returns whether the same call may succeed later. `vault_unavailable` blocks only work that needs keys, and
 * `action_limited` only one action of one object, so they count as refusals.
 */
function isPassing(status: number, code: ErrorCode): boolean {
  return code !== "vault_unavailable" && code !== "action_limited" && (status >= 500 || status === 429);
}

function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(errorCodes, code);
}

function unavailable(message: string, retryAfter?: number): ApiFailure {
  return { kind: "unavailable", message, ...(retryAfter === undefined ? {} : { retryAfterMs: retryAfter }) };
}

function retryAfterMs(header: string | string[] | undefined): number | undefined {
  const seconds = Number(header);
  if (typeof header !== "string" || !Number.isInteger(seconds) || seconds < 0) return undefined;
  return Math.min(seconds, MAX_RETRY_AFTER_SECONDS) * 1000;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Describes a network error only by its kind, because addresses, headers and bodies may be confidential. */
function causeOf(error: unknown): string {
  const { name, code } = error as { name?: unknown; code?: unknown };
  if (name === "TimeoutError") return "it did not answer in time";
  return typeof code === "string" ? `the call failed (${code})` : "the call failed";
}

/** The source of the operator's bearer token. It reads a token file again after at most a minute. */
type TokenSource = {
  /** Rejects if the file cannot be read. */
  current(): Promise<string>;
  /** Makes the next call of `current` read the file again. */
  forget(): void;
};

const MAX_AGE_MS = 60_000;

/** Creates a source that reads the token from `file`. Without `file`, it always returns `token`. */
export function createTokenSource(
  clock: Clock,
  { token, file }: { token: string; file?: string | undefined },
): TokenSource {
  let read: { value: string; at: number } | undefined;
  return {
    async current() {
      if (file === undefined) return token;
      const now = clock.now().getTime();
      if (read === undefined || now - read.at >= MAX_AGE_MS || now < read.at) {
        read = { value: (await readFile(file, "utf8")).trim(), at: now };
      }
      return read.value;
    },
    forget() {
      read = undefined;
    },
  };
}
