import { isDeepStrictEqual } from "node:util";
import { Agent, type Dispatcher, request } from "undici";
import type { ClusterAccess, ClusterTls } from "./access.ts";
import { ClusterError, errorOfAnswer, errorOfTransport, isStatus, type Verb } from "./cluster_error.ts";
import { jsonLines } from "./json_lines.ts";
import { pause } from "./pause.ts";

/** One call. `resource` is what an error names, as roles do: `platforms/status`. A patch is a merge patch. */
export type ClusterCall = {
  verb: Verb;
  resource: string;
  path: string;
  query?: Readonly<Record<string, string>>;
  body?: object;
  signal?: AbortSignal;
};

/** Calls an API server. Every failure is a `ClusterError`. */
export type ClusterClient = {
  /** The decoded answer of a call within its deadline. Waits and asks again where the cluster says so. */
  call(call: ClusterCall): Promise<unknown>;
  /** The lines of a watch until it ends or `signal` does. */
  watch(call: ClusterCall & { signal: AbortSignal }): AsyncGenerator<unknown>;
  /** Ends all watches and calls immediately, and refuses new ones. */
  close(): Promise<void>;
};

/** What is counted as the status of a request without an answer, as client-go does. */
export const NO_ANSWER = "<error>";

/** A request that ended: its status, or `NO_ANSWER`. */
export type ClusterAnswer = { code: string; method: string; host: string };

type Options = {
  access: ClusterAccess;
  deadlineMs?: number;
  onAnswer?: ((answer: ClusterAnswer) => void) | undefined;
};

const DEADLINE_MS = 30_000;
const CONNECT_MS = 10_000;
const METHODS: Record<Verb, Dispatcher.HttpMethod> = {
  get: "GET",
  list: "GET",
  watch: "GET",
  create: "POST",
  patch: "PATCH",
  delete: "DELETE",
};

type Agents = { tls: ClusterTls; calls: Agent; watches: Agent };

/** Connects to a cluster. Calls share connections that are kept alive; watches have their own. */
export function createClusterClient({ access, deadlineMs = DEADLINE_MS, onAnswer }: Options): ClusterClient {
  const { host } = new URL(access.server);
  const closing = new AbortController();
  const all = new Set<Agents>();
  let current: Agents | undefined;

  /** Other certificates need other connections. Calls on those of before end; watches are opened again. */
  function agentsFor(tls: ClusterTls): Agents {
    if (current !== undefined && isDeepStrictEqual(current.tls, tls)) return current;
    const former = current;
    current = createAgents(tls);
    all.add(current);
    if (former !== undefined) void closed(former).then(() => all.delete(former));
    return current;
  }

  async function send(call: ClusterCall, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
    const { verb, path, query, body } = call;
    const { headers, tls } = await within(access.credentials(), signal).catch((error) => {
      if (signal.aborted) throw error;
      throw new ClusterError({ verb, resource: call.resource, reason: "NoCredentials" });
    });
    const agents = agentsFor(tls);
    if (closing.signal.aborted) throw closing.signal.reason;
    const method = METHODS[verb];
    const tell = (code: string) => onAnswer?.({ code, method, host });
    const answer = request(`${access.server}${path}?${new URLSearchParams(query)}`, {
      method,
      dispatcher: verb === "watch" ? agents.watches : agents.calls,
      signal,
      headers: {
        ...headers,
        accept: "application/json",
        "user-agent": "deputize-operator",
        ...(body === undefined ? {} : { "content-type": contentType(verb) }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    answer.then(
      ({ statusCode }) => tell(String(statusCode)),
      () => tell(NO_ANSWER),
    );
    // A request whose connection is not there yet does not heed its signal.
    return within(answer, signal);
  }

  /** Ends with any of these, and when the client is closed. */
  function endOf(...signals: (AbortSignal | undefined)[]): AbortSignal {
    return AbortSignal.any([closing.signal, ...signals.filter((signal) => signal !== undefined)]);
  }

  async function refused(call: ClusterCall, response: Dispatcher.ResponseData): Promise<ClusterError> {
    const retryAfter = response.headers["retry-after"];
    const text = await response.body.text();
    return errorOfAnswer(call, {
      status: response.statusCode,
      body: decoded(text),
      retryAfter: typeof retryAfter === "string" ? retryAfter : undefined,
    });
  }

  async function once(call: ClusterCall, signal: AbortSignal): Promise<unknown> {
    try {
      const response = await send(call, signal);
      if (response.statusCode >= 300) throw await refused(call, response);
      return JSON.parse(await response.body.text());
    } catch (error) {
      throw errorOfTransport(call, error);
    }
  }

  /** Milliseconds after which a call that failed so is made again; `undefined`: it is not. */
  function repeatAfter(error: unknown, tries: number): number | undefined {
    if (isStatus(error, 401) && tries === 0) {
      access.forget();
      return 0;
    }
    // What the cluster puts off it has not begun.
    const { retryAfterMs, status } = error as ClusterError;
    const isPutOff = status === 429 || (status !== undefined && status >= 500);
    return isPutOff && retryAfterMs !== undefined && retryAfterMs < deadlineMs ? retryAfterMs : undefined;
  }

  return {
    async call(call) {
      const signal = endOf(call.signal, AbortSignal.timeout(deadlineMs));
      for (let tries = 0; ; tries += 1) {
        try {
          return await once(call, signal);
        } catch (error) {
          const waitMs = repeatAfter(error, tries);
          if (waitMs === undefined) throw error;
          await pause(waitMs, signal);
          if (signal.aborted) throw error;
        }
      }
    },
    async *watch(call) {
      const late = new AbortController();
      const timer = setTimeout(() => late.abort(new DOMException("late", "TimeoutError")), deadlineMs);
      try {
        const response = await send(call, endOf(call.signal, late.signal));
        if (response.statusCode >= 300) throw await refused(call, response);
        clearTimeout(timer);
        yield* jsonLines(response.body);
      } catch (error) {
        if (isStatus(error, 401)) access.forget();
        throw errorOfTransport(call, error);
      } finally {
        clearTimeout(timer);
      }
    },
    async close() {
      closing.abort();
      await Promise.all([...all].flatMap(({ calls, watches }) => [calls.destroy(), watches.destroy()]));
    },
  };
}

function createAgents(tls: ClusterTls): Agents {
  const connect = { ...tls, timeout: CONNECT_MS };
  return {
    tls,
    calls: new Agent({ connect, allowH2: false, connections: 16, keepAliveTimeout: 30_000 }),
    // The reflector notices silence.
    watches: new Agent({ connect, allowH2: false, bodyTimeout: 0 }),
  };
}

async function closed({ calls, watches }: Agents): Promise<void> {
  await Promise.all([calls.close(), watches.destroy()]).catch(() => undefined);
}

function contentType(verb: Verb): string {
  return verb === "patch" ? "application/merge-patch+json" : "application/json";
}

/** The value, unless `signal` ends before: a plugin may hang. */
function within<T>(value: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const end = () => reject(signal.reason);
  if (signal.aborted) end();
  signal.addEventListener("abort", end, { once: true });
  value.then(resolve, reject).finally(() => signal.removeEventListener("abort", end));
  return promise;
}

function decoded(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
