import { readFile } from "node:fs/promises";
import { Agent, type Dispatcher, request } from "undici";
import { type ZodType, z } from "zod";
import type { Clock } from "../clock.ts";
import { type ErrorCode, errorCodes } from "../errors.ts";

/**
 * Why a call of the API gave no answer: it `refused` what was asked (a code of the service), it or what it
 * needs is `unavailable`, it does not know this operator (`unauthorized`), or a newer operator leads
 * (`superseded`). Messages are for people and hold no secret.
 */
export type ApiFailure =
  | { kind: "refused"; code: ErrorCode; message: string }
  | { kind: "unavailable"; message: string; retryAfterMs?: number }
  | { kind: "unauthorized"; message: string }
  | { kind: "superseded"; message: string };

/** The value of a call, or why there is none. */
export type ApiResult<T> = { value: T; failure?: never } | { value?: never; failure: ApiFailure };

/** One call: method, path and body, and the form of its answer. */
type Call<T> = {
  /** What it is called in metrics. */
  name: string;
  method: "PUT" | "POST" | "DELETE";
  path: string;
  body?: unknown;
  answer: ZodType<T>;
  /** Which leader calls; without one it is nobody yet. */
  epoch?: number | undefined;
};

/** Sends calls of the operator to the API. */
type Transport = {
  /** The answer of a call within its deadline. Never rejects; every way to fail is a value. */
  send<T>(call: Call<T>): Promise<ApiResult<T>>;
  close(): Promise<void>;
};

type Options = {
  baseUrl: string;
  tokens: TokenSource;
  clusterId: string;
  deadlineMs: number;
  /** The trace that the call is a part of, if it is. */
  traceparent?: (() => string | undefined) | undefined;
  /** Told of every call's end: `ok` or a kind of failure, and how long it took. */
  onAnswer?: ((call: string, result: "ok" | ApiFailure["kind"], seconds: number) => void) | undefined;
};

/** Longest wait that a Retry-After header is believed. */
const MAX_RETRY_AFTER_SECONDS = 3600;

const errorAnswer = z.object({ error: z.object({ code: z.string(), message: z.string() }) });

/** Connects to an API. Connections are kept alive and shared by all calls. */
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
  if (code === undefined || !isErrorCode(code) || isPassing(statusCode, code)) {
    return unavailable(message, retryAfterMs(headers["retry-after"]));
  }
  return { kind: "refused", code, message };
}

/** Whether the same call may succeed later. The vault's absence concerns keys only: a refusal. */
function isPassing(status: number, code: ErrorCode): boolean {
  return code !== "vault_unavailable" && (status >= 500 || status === 429);
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

/** The kind of a network error, without addresses, headers or bodies. */
function causeOf(error: unknown): string {
  const { name, code } = error as { name?: unknown; code?: unknown };
  if (name === "TimeoutError") return "it did not answer in time";
  return typeof code === "string" ? `the call failed (${code})` : "the call failed";
}

/**
 * The operator's bearer token. A token in a file is read again at least every minute, as it may be replaced.
 */
type TokenSource = {
  /** The current token. Rejects when the file cannot be read. */
  current(): Promise<string>;
  /** Reads the file again next time: the token was refused. */
  forget(): void;
};

const MAX_AGE_MS = 60_000;

/** A token given as text or, when there is a file, in that. */
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
