import { randomUUID } from "node:crypto";
import type { Agent as HttpAgent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { canonicalJson } from "../../protocol/encoding/canonical.ts";
import { ProtocolError } from "../../protocol/encoding/errors.ts";
import { bindOperation, describeOperation, type Operation } from "../operation.ts";
import { frozenCopy, payloadDigest } from "../payload.ts";
import { demandScope } from "../question.ts";
import {
  demand,
  demandFunction,
  demandKnown,
  type GuardSettings,
  type Known,
  readSettings,
} from "../settings.ts";
import { type Ask, actOrAsk, type Question, readAsk } from "./asking.ts";
import { AgentError, Unavailable, unanswered } from "./errors.ts";
import { readRefusal } from "./refusals.ts";
import { type FetchInit, type ReadRequest, readRequest } from "./request.ts";
import { createService, type Self } from "./service.ts";
import {
  type AgentVerifier,
  checkExpected,
  readVerifier,
  readVerifiers,
  type Verifiers,
} from "./verifiers.ts";

/** Settings of an agent. */
export type AgentSettings = Pick<GuardSettings, "baseUrl" | "apiKey" | "word" | "timeoutMs"> & {
  /** The agent. If absent, the API key must be the agent's own. */
  agentId?: string;
  /**
   * The verifier of each application, by the application's address. `"own"` is the connection of the API key.
   * The agent calls no address without a verifier.
   */
  verifiers: Verifiers;
  /** The HTTP agent for the service, from `node:http`, or from `node:https` with your certificates. */
  httpAgent?: HttpAgent;
  /** Replaces the global `fetch` for calls of applications. */
  fetch?: typeof globalThis.fetch;
  /** Pauses in milliseconds before a repetition, if nothing was done. Defaults to 500 and 2,000. */
  pausesMs?: readonly number[];
  /** Called for each question that needs a person's decision, to show its `url`. Must not throw. */
  onAsk?: (question: Question) => void;
};

/** The call of a tool: what the tool may do, and under which id. */
export type ToolCall = {
  readonly scope: string;
  /** The id of this call. The first request has this id, and the n-th has it with the suffix `~n`. */
  readonly invocationId: string;
  /** {@link Agent.fetch} with the tool's scope. */
  fetch(url: string | URL, init?: Omit<FetchInit, "scope" | "invocationId">): Promise<Response>;
};

/** Options of one call of a tool. An `invocationId` has at most 240 characters, and no `~`. */
export type ToolOptions = { invocationId?: string; signal?: AbortSignal };

/** An action that reaches its application in another way than `agent.fetch`. */
export type ProofAction = {
  /** The application's address in the agent's settings, or its verifier. */
  at: URL | AgentVerifier | "own";
  scope: string;
  action: string;
  /** The input of the action: plain data or bytes. */
  payload?: unknown;
  resourceId?: string | undefined;
  requestedPath?: string | undefined;
  invocationId?: string | undefined;
  signal?: AbortSignal | undefined;
  /** How to ask a person if the service makes no proof. Without it, the agent asks nobody. */
  ask?: Ask | undefined;
};

/** A proof of one action, with the ids that the application's guard needs. */
export type ActionProof = { proofRef: string; agentId: string; invocationId: string };

/** An agent that acts with authority from a person. */
export type Agent = {
  /**
   * Sends a request with a proof of exactly this request. Returns the application's response, even an error
   * of the application. Throws an `AgentError` for a refusal, and TypeError for invalid arguments. Repeats a
   * call only after a refusal that says that nothing was done. Follows no redirect.
   */
  fetch(url: string | URL, init: FetchInit): Promise<Response>;
  /**
   * Returns a function for an agent framework. It runs `fn` with the input of the model, and a `fetch` that
   * has the tool's scope. The model cannot choose the scope.
   */
  tool<Input, Output>(
    fn: (input: Input, call: ToolCall) => Output | Promise<Output>,
    scope: string,
  ): (input: Input, options?: ToolOptions) => Promise<Output>;
  /**
   * Returns a proof of exactly this action, for code that sends it itself. Throws an `AgentError` if the
   * service makes none, and TypeError for invalid arguments.
   */
  prove(action: ProofAction): Promise<ActionProof>;
  /** Withdraws a question that no person has decided. Throws an `AgentError` if there is none. */
  cancelAsk(taskId: string): Promise<void>;
  /** Returns whether a link leads to the agent's own service. */
  isOwnLink(link: unknown): boolean;
};

const SETTINGS: Known<AgentSettings> = {
  ...{ baseUrl: true, apiKey: true, word: true, timeoutMs: true, agentId: true },
  ...{ verifiers: true, httpAgent: true, fetch: true, pausesMs: true, onAsk: true },
};
const ACTION: Known<ProofAction> = {
  ...{ at: true, scope: true, action: true, payload: true, resourceId: true },
  ...{ requestedPath: true, invocationId: true, signal: true, ask: true },
};
const TOOL_OPTIONS: Known<ToolOptions> = { invocationId: true, signal: true };
const PAUSES_MS = [500, 2_000];
const INVOCATION_ID = /^[\x21-\x7e]{1,256}$/;
/** Leaves room for the suffix of a request, and contains none, so that no two calls share an id. */
const TOOL_CALL_ID = /^[\x21-\x7d]{1,240}$/;

/** Creates an agent. Throws TypeError for invalid settings. Does not connect before the first call. */
export function createAgent(settings: AgentSettings): Agent {
  demandKnown("settings", settings, SETTINGS);
  demandFunction("fetch", settings.fetch);
  demandFunction("onAsk", settings.onAsk);
  const { verifiers, httpAgent, agentId, pausesMs = PAUSES_MS, fetch: given, onAsk } = settings;
  const read = readSettings({ ...settings, ...(httpAgent !== undefined && { agent: httpAgent }) });
  const service = createService({ ...read, agentId, pausesMs });
  const verifierOf = readVerifiers(verifiers);
  const isOwnLink = (link: unknown) =>
    typeof link === "string" && URL.canParse(link) && new URL(link).origin === read.address("").origin;
  const asker = { service, isOwnLink, onAsk: onAsk ?? (() => undefined) };

  async function send(request: ReadRequest, operation: Operation): Promise<Response> {
    const { url, method, body, signal } = request;
    const { invocation_id: invocationId, session_id: sessionId, agent_id } = operation;
    const proof = await service.present({
      operation,
      requiredScope: request.scope,
      verifierConnectionId: connectionOf(verifierOf(url)),
      certId: request.certId,
      signal,
    });
    const headers = new Headers(request.headers);
    const own = {
      ...{ proof, "invocation-id": invocationId, "agent-id": agent_id, "session-id": sessionId },
      operation: describeOperation(operation, request.scope),
    };
    for (const [name, value] of Object.entries(own)) headers.set(read.header(name), value);
    if (sessionId === "") headers.delete(read.header("session-id"));
    signal?.throwIfAborted();
    try {
      const parts = { method, headers, body: body ?? null, signal: signal ?? null };
      return await (given ?? fetch)(url, { ...parts, redirect: "manual" });
    } catch (error) {
      if (signal?.aborted === true) throw error;
      throw unanswered(invocationId, error);
    }
  }

  async function act(address: string | URL, init: FetchInit): Promise<Response> {
    const request = readRequest(address, init);
    const { signal } = request;
    const named = verifierOf(request.url);
    if (named !== "own") checkExpected(request.verifier, named);
    const self = await service.readSelf(signal);
    const verifier = named === "own" ? self.own : named;
    checkExpected(request.verifier, verifier);
    const operation = describe(request, { self, verifier });
    const denied = { ...request, operation };
    return actOrAsk(asker, denied, (bound, approved) =>
      exchangeWith(approved === undefined ? request : { ...request, certId: approved }, bound),
    );
  }

  /** Sends a request until there is an answer or a refusal that no repetition changes. */
  async function exchangeWith(request: ReadRequest, operation: Operation): Promise<Response> {
    const { signal } = request;
    const limits = { invocationId: operation.invocation_id, timeoutMs: read.timeoutMs, signal };
    for (const pause of [...pausesMs, undefined]) {
      const answer = await readRefusal(await send(request, operation), limits);
      if (!(answer instanceof AgentError)) return answer;
      if (!(answer instanceof Unavailable) || pause === undefined) throw answer;
      await sleep(pause, undefined, { ...(signal && { signal }) });
    }
    throw new Error("unreachable");
  }

  async function prove({ at, scope, signal, invocationId = randomUUID(), ...given }: ProofAction) {
    demandKnown("action", { at, scope, signal, invocationId, ...given }, ACTION);
    demandScope(scope, "scope");
    const ask = readAsk(given.ask);
    if (!INVOCATION_ID.test(invocationId)) {
      throw new TypeError("invocationId: must have 1 to 256 visible ASCII characters");
    }
    const { digest, text: payload } = readPayload(given.payload);
    const named = at instanceof URL ? verifierOf(at) : readVerifier(at);
    const self = await service.readSelf(signal);
    const verifier = named === "own" ? self.own : named;
    const { action, resourceId, requestedPath } = given;
    const operation = bindOperation(
      { action, resourceId, requestedPath, invocationId, agentId: self.agentId },
      { requiredScope: scope, verifier, payloadDigest: digest },
    );
    const verifierConnectionId = connectionOf(named);
    const proofRef = await actOrAsk(asker, { ask, operation, scope, payload, signal }, (bound, certId) =>
      service.present({ operation: bound, requiredScope: scope, verifierConnectionId, certId, signal }),
    );
    return { proofRef, agentId: self.agentId, invocationId };
  }

  return {
    fetch: act,
    prove,
    cancelAsk: (taskId) => service.cancelAsked(taskId),
    isOwnLink,
    tool(fn, scope) {
      demand(typeof fn === "function", "fn: must be a function");
      demandScope(scope, "scope");
      return async (input, options = {}) => {
        demandKnown("options", options, TOOL_OPTIONS);
        const { invocationId = randomUUID(), signal } = options;
        if (!TOOL_CALL_ID.test(invocationId)) {
          throw new TypeError("invocationId: must have 1 to 240 visible ASCII characters without ~");
        }
        let requests = 0;
        const call: ToolCall = {
          scope,
          invocationId,
          fetch(url, init = {}) {
            requests += 1;
            const id = requests === 1 ? invocationId : `${invocationId}~${requests}`;
            const own = init.signal ?? signal;
            return act(url, { ...init, ...(own && { signal: own }), scope, invocationId: id });
          },
        };
        return fn(input, call);
      };
    },
  };
}

function describe(
  { url, digest, scope, action, resourceId, sessionId, invocationId }: ReadRequest,
  { self, verifier }: { self: Self; verifier: AgentVerifier },
): Operation {
  const requestedPath = `${url.pathname}${url.search}`;
  return bindOperation(
    { action, resourceId, sessionId, invocationId, requestedPath, agentId: self.agentId },
    { requiredScope: scope, verifier, payloadDigest: digest },
  );
}

function readPayload(given: unknown): { digest: Uint8Array | undefined; text: string | undefined } {
  try {
    const payload = frozenCopy(given);
    const isData = payload !== undefined && !(payload instanceof Uint8Array);
    return { digest: payloadDigest(payload), text: isData ? canonicalJson(payload) : undefined };
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    throw new TypeError("payload: has no canonical JSON", { cause: error });
  }
}

function connectionOf(verifier: AgentVerifier | "own"): string | undefined {
  return verifier === "own" ? undefined : verifier.connectionId;
}
