import { isDeepStrictEqual } from "node:util";
import type { RequestContext } from "@kubernetes/client-node";
import { Agent, type Dispatcher, ProxyAgent, request as requestOver } from "undici";
import type { ClusterAccess, ClusterTls } from "./access.ts";
import { type ApiClients, type ClusterCall, createApiClients, resourceOfPath } from "./api_clients.ts";
import { ClusterError, errorOfAnswer, errorOfTransport, type FailedCall, isStatus } from "./cluster_error.ts";
import { pause } from "./pause.ts";
import { decoded, runWatch } from "./watch.ts";

/** A watch of the collection at a path. */
export type ClusterWatch = {
  path: string;
  query: Readonly<Record<string, string>>;
  signal: AbortSignal;
  /** Called for each event. If `onEvent` throws, the watch ends and `watch` throws that error. */
  onEvent(event: unknown): void;
};

/**
 * Calls an API server through the typed clients of `@kubernetes/client-node`. Every failure is a
 * `ClusterError`. Each call has a deadline. The client waits and repeats a call if the cluster asks for that.
 */
export type ClusterClient = ApiClients & {
  /** Resolves when the API server ends the watch. */
  watch(watch: ClusterWatch): Promise<void>;
  /** Ends all watches and calls immediately, and refuses new ones. */
  close(): Promise<void>;
};

/** Value of `code` in metrics for a request that received no response, as in client-go. */
export const NO_ANSWER = "<error>";

/** A completed request. `code` is its status or `NO_ANSWER`. */
export type ClusterAnswer = { code: string; method: string; host: string };

type Options = {
  access: ClusterAccess;
  deadlineMs?: number;
  onAnswer?: ((answer: ClusterAnswer) => void) | undefined;
};

const DEADLINE_MS = 30_000;
const CONNECT_MS = 10_000;

type Agents = { tls: ClusterTls; calls: Dispatcher; watches: Dispatcher; all: Dispatcher[] };
type Named = Pick<FailedCall, "verb" | "resource">;
type Connection = { headers: Record<string, string>; agents: Agents };

/** Creates a client of a cluster. All calls share keep-alive connections. Watches use other connections. */
export async function createClusterClient(options: Options): Promise<ClusterClient> {
  const { access, deadlineMs = DEADLINE_MS, onAnswer } = options;
  const { host } = new URL(access.server);
  const closing = new AbortController();
  const all = new Set<Agents>();
  let current: Agents | undefined;

  /**
   * Returns the connections for these TLS options. Changed certificates need new connections. Calls on the
   * former connections finish, and watches are opened again.
   */
  function agentsFor(tls: ClusterTls): Agents {
    if (current !== undefined && isDeepStrictEqual(current.tls, tls)) return current;
    const former = current;
    current = createAgents(access, tls);
    all.add(current);
    if (former !== undefined) void closed(former).then(() => all.delete(former));
    return current;
  }

  async function connect({ verb, resource }: Named, signal: AbortSignal): Promise<Connection> {
    const { headers, tls } = await within(access.credentials(), signal).catch((error) => {
      if (signal.aborted) throw error;
      throw new ClusterError({ verb, resource, reason: "NoCredentials" });
    });
    const agents = agentsFor(tls);
    if (closing.signal.aborted) throw closing.signal.reason;
    return {
      headers: { ...headers, accept: "application/json", "user-agent": "deputize-operator" },
      agents,
    };
  }

  /** Returns a signal that aborts with any of these signals, and when the client is closed. */
  function combinedSignal(...signals: (AbortSignal | undefined)[]): AbortSignal {
    return AbortSignal.any([closing.signal, ...signals.filter((signal) => signal !== undefined)]);
  }

  /** Makes one attempt. Reads the body itself, because the library would quote the body in errors. */
  async function once(request: RequestContext, call: ClusterCall, signal: AbortSignal): Promise<string> {
    try {
      const { headers, agents } = await connect(call, signal);
      const method = request.getHttpMethod();
      // Avoids the library's `fetch`, which follows redirects and adds 11 MiB to the operator's idle memory.
      const answer = requestOver(request.getUrl(), {
        method,
        headers: { ...request.getHeaders(), ...headers },
        body: (request.getBody() as string | undefined) ?? null,
        dispatcher: agents.calls,
        signal,
      });
      answer.then(
        ({ statusCode }) => onAnswer?.({ code: String(statusCode), method, host }),
        () => onAnswer?.({ code: NO_ANSWER, method, host }),
      );
      // `within` is needed because a request ignores its signal until its connection is open.
      const { statusCode: status, headers: received, body } = await within(answer, signal);
      const text = await body.text();
      if (status < 300) {
        JSON.parse(text);
        return text;
      }
      const retryAfter = received["retry-after"];
      throw errorOfAnswer(call, {
        status,
        body: decoded(text),
        retryAfter: typeof retryAfter === "string" ? retryAfter : undefined,
      });
    } catch (error) {
      throw errorOfTransport(call, error);
    }
  }

  /** Returns how many milliseconds to wait before repeating a failed call; `undefined` for no repetition. */
  function repeatAfter(error: unknown, tries: number): number | undefined {
    if (isStatus(error, 401) && tries === 0) {
      access.forget();
      return 0;
    }
    // Repeating is safe: if the cluster asks to repeat a call, the cluster has not executed the call.
    const { retryAfterMs, status } = error as ClusterError;
    const isPutOff = status === 429 || (status !== undefined && status >= 500);
    return isPutOff && retryAfterMs !== undefined && retryAfterMs < deadlineMs ? retryAfterMs : undefined;
  }

  async function send(request: RequestContext, call: ClusterCall): Promise<string> {
    const signal = combinedSignal(request.getSignal(), AbortSignal.timeout(deadlineMs));
    if (call.verb === "patch") request.setHeaderParam("content-type", "application/merge-patch+json");
    for (let tries = 0; ; tries += 1) {
      try {
        return await once(request, call, signal);
      } catch (error) {
        const waitMs = repeatAfter(error, tries);
        if (waitMs === undefined) throw error;
        await pause(waitMs, signal);
        if (signal.aborted) throw error;
      }
    }
  }

  return {
    ...(await createApiClients(access.server, send)),
    async watch({ path, query, signal, onEvent }) {
      const call = { verb: "watch", resource: resourceOfPath(path).resource } as const;
      const late = new AbortController();
      const timer = setTimeout(() => late.abort(new DOMException("late", "TimeoutError")), deadlineMs);
      const end = combinedSignal(signal, late.signal);
      let isAnswered = false;
      const countAnswer = (code: string) => onAnswer?.({ code, method: "GET", host });
      try {
        const { headers, agents } = await connect(call, end).catch((error) => {
          throw errorOfTransport(call, error);
        });
        await runWatch({
          ...{ server: access.server, resource: call.resource, path, query, headers, signal: end, onEvent },
          dispatcher: agents.watches,
          onAnswer(status) {
            isAnswered = true;
            clearTimeout(timer);
            countAnswer(String(status));
          },
        });
      } catch (error) {
        if (!isAnswered) countAnswer(NO_ANSWER);
        if (isStatus(error, 401)) access.forget();
        throw error;
      } finally {
        clearTimeout(timer);
      }
    },
    async close() {
      closing.abort();
      await Promise.all([...all].flatMap((agents) => agents.all.map((agent) => agent.destroy())));
    },
  };
}

function createAgents(access: ClusterAccess, tls: ClusterTls): Agents {
  const calls = createDispatcher(access, tls, { connections: 16, keepAliveTimeout: 30_000 });
  // Sets no body timeout for watches, because the reflector detects silence.
  const watches = createDispatcher(access, tls, { bodyTimeout: 0 });
  const { origin } = new URL(access.server);
  return { tls, calls, watches: watches.compose(onlyTo(origin)), all: [calls, watches] };
}

/** Creates the connections to an API server, through the kubeconfig's proxy if it names one. */
export function createDispatcher(
  { proxyUrl }: Pick<ClusterAccess, "proxyUrl">,
  tls: ClusterTls,
  limits: Agent.Options = {},
): Dispatcher {
  return proxyUrl === undefined
    ? new Agent({ connect: { ...tls, timeout: CONNECT_MS }, allowH2: false, ...limits })
    : new ProxyAgent({ uri: proxyUrl, requestTls: tls, allowH2: false, ...limits });
}

/** Refuses requests to other servers: the library's `Watch` would follow a redirect with its credentials. */
function onlyTo(origin: string): Dispatcher.DispatcherComposeInterceptor {
  return (dispatch) => (request, handler) => {
    if (String(request.origin) !== origin) throw new TypeError("redirected to another server");
    return dispatch(request, handler);
  };
}

async function closed({ all: [calls, watches] }: Agents): Promise<void> {
  await Promise.all([calls?.close(), watches?.destroy()]).catch(() => undefined);
}

/** Rejects when `signal` aborts before the value, because a credentials plugin may hang. */
function within<T>(value: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const end = () => reject(signal.reason);
  if (signal.aborted) end();
  signal.addEventListener("abort", end, { once: true });
  value.then(resolve, reject).finally(() => signal.removeEventListener("abort", end));
  return promise;
}
