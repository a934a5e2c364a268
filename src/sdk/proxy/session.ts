import { randomUUID } from "node:crypto";
import type { Agent } from "../agent/create_agent.ts";
import { isPlain } from "../mcp/rules.ts";
import { OPEN_METHODS, withoutAuthority } from "../mcp/wire.ts";
import { openPage, withoutOwnAnswer } from "./asking.ts";
import { type Decider, type Decision, decide } from "./decide.ts";
import type { Journal } from "./journal.ts";
import {
  type ErrorMessage,
  errorMessage,
  type Message,
  type MessageId,
  type ServerMessage,
} from "./messages.ts";
import type { ProxyRules } from "./rules_file.ts";
import { asksForClosedInput, SERVER_REQUESTS, withhold } from "./server_requests.ts";
import type { ToolList } from "./tool_list.ts";

/** The handling of a message: pass `forward` on, and send `reply` back. Nothing, if both are absent. */
export type Verdict<Forwarded = Message> = { forward?: Forwarded; reply?: Message | ErrorMessage };

/** One connection between a client and a server, as the proxy follows it. */
export type Session = {
  /** Handles a message of the client. All messages but calls of tools are handled immediately. */
  fromClient(message: Message): Verdict | Promise<Verdict>;
  /** Handles a message of the server. `forward` is the text for the client. */
  fromServer(message: ServerMessage): Verdict<string>;
  /** Notes that a request will get no response. Returns whether the server may have received it. */
  lose(id: MessageId): boolean;
  /** Notes that no open call will get a response. */
  end(): void;
};

/** The parts of a proxy that its sessions share. */
export type ProxyParts = {
  rules: ProxyRules;
  journal: Journal;
  tools: ToolList;
  decider: Decider | undefined;
};

type Call = {
  tool: string | undefined;
  startedAt: number;
  controller: AbortController;
  decision: Promise<Decision>;
  /** How long the decision took, as soon as there is one. */
  decisionMs: number | undefined;
};
type Open = { method: string; call?: Call };

const CLIENT_NOTIFICATIONS = ["initialized", "cancelled", "progress", "roots/list_changed"].map(notification);
const SERVER_NOTIFICATIONS = [
  ...["message", "progress", "cancelled", "tools/list_changed", "prompts/list_changed"],
  ...["resources/list_changed", "subscriptions/acknowledged"],
].map(notification);
/** Only requests of the revision 2026-07-28 and newer ones have it. */
const REVISION_OF_REQUEST = "io.modelcontextprotocol/protocolVersion";
const MOST_OPEN = 1_000;
const MOST_PAGES = 100;
const LIST_TIMEOUT_MS = 10_000;
const CLOSED = "The proxy permits no agent to use this method. Nothing was done.";
const CLOSED_INPUT = "The server asked for input that the proxy does not permit.";

/** Creates a session. `toServer` sends a request of the proxy itself. */
export function createSession(
  { rules, journal, tools, decider }: ProxyParts,
  agent: Agent | undefined,
  toServer: (message: Message) => unknown,
): Session {
  const isEnforced = rules.mode === "enforce";
  const open = new Map<MessageId, Open>();
  const serverRequests = new Set<MessageId>();
  const own = new Map<MessageId, (message: Message) => void>();

  /** Returns whether a message of this kind passes, and notes it otherwise. */
  function passes(closed: readonly string[], method: string): boolean {
    if (closed.includes(method) || rules.methods.includes(method)) return true;
    journal.refused("closed_method");
    return !isEnforced;
  }

  function ask(method: string, params: Readonly<Record<string, unknown>>): Promise<Message> {
    const id = `deputize-${randomUUID()}`;
    return new Promise<Message>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error("the server did not list its tools")), LIST_TIMEOUT_MS);
      timer.unref();
      own.set(id, (message) => {
        clearTimeout(timer);
        resolve(message);
      });
      toServer({ jsonrpc: "2.0", id, method, params });
    }).finally(() => own.delete(id));
  }

  /** Reads the whole list of tools. `meta` is the client's own, which names the revision of the protocol. */
  async function listTools(meta: Readonly<Record<string, unknown>> | undefined): Promise<unknown[]> {
    const found: unknown[] = [];
    let cursor: unknown;
    for (let page = 0; page < MOST_PAGES; page++) {
      const params = { ...(cursor !== undefined && { cursor }), ...(meta && { _meta: meta }) };
      const { result = {} } = await ask("tools/list", params);
      if (!Array.isArray(result.tools)) break;
      found.push(...result.tools);
      cursor = result.nextCursor;
      if (typeof cursor !== "string") return found;
    }
    throw new Error("the server did not list its tools");
  }

  function begin(message: Message, params: Readonly<Record<string, unknown>>): Call {
    const name = typeof params.name === "string" ? params.name : undefined;
    const controller = new AbortController();
    const { progressToken: _, ...meta } = withoutAuthority(params._meta) ?? {};
    const decision = decide(rules, decider, {
      ...{ params, agent, signal: controller.signal },
      isAccepted: (tool) => tools.isAccepted(tool, () => listTools(meta)),
    });
    const tool = name !== undefined && tools.isKnown(name) ? name : undefined;
    const call: Call = { tool, startedAt: performance.now(), controller, decision, decisionMs: undefined };
    void decision.then(() => {
      call.decisionMs = performance.now() - call.startedAt;
    });
    open.set(message.id as MessageId, { method: "tools/call", call });
    return call;
  }

  async function handleCall(message: Message, id: MessageId): Promise<Verdict> {
    const { call: own, isAnswer } = withoutOwnAnswer(message);
    const { params = {} } = own;
    const call = begin(own, params);
    const forward = passedOn(own);
    if (!isEnforced) return { forward };
    const decision = await call.decision;
    if (call.controller.signal.aborted) {
      decision.authority?.report("not_attempted", "the call was cancelled");
      record(call, { ...decision, code: "call_cancelled" }, "refused", undefined);
      return {};
    }
    if (decision.refusal === undefined) return { forward };
    open.delete(id);
    record(call, decision, "refused", undefined);
    const page = isAnswer ? undefined : openPage(decision.refusal, params);
    return {
      reply: { jsonrpc: "2.0", id, result: page ?? { ...decision.refusal, ...eraOf(params._meta) } },
    };
  }

  /** Notes how an open call ended. In `observe`, the decision may still be under way. */
  async function finish(call: Call, outcome: "executed" | "failed" | "unanswered"): Promise<void> {
    const decision = await call.decision;
    if (outcome !== "unanswered") decision.authority?.report(outcome);
    const kind = decision.refusal ? "refused" : decision.authority ? "allow" : "open";
    record(call, decision, kind, outcome);
  }

  function record(
    { tool, startedAt, decisionMs = 0 }: Call,
    { code, agentId, invocationId, receiptId }: Decision,
    decision: "allow" | "open" | "refused",
    outcome: "executed" | "failed" | "unanswered" | undefined,
  ): void {
    const totalMs = performance.now() - startedAt;
    const ids = { agentId, invocationId, receiptId };
    journal.call({ tool, decision, code, outcome, ...ids, decisionMs, totalMs });
  }

  /** Ends a request. A call that the server does not have yet is reported by the end of its decision. */
  function lose(id: MessageId): boolean {
    const found = open.get(id);
    open.delete(id);
    const { call } = found ?? {};
    call?.controller.abort();
    if (call === undefined) return found !== undefined;
    const isSent = !isEnforced || call.decisionMs !== undefined;
    if (isSent) void finish(call, "unanswered");
    return isSent;
  }

  function notify(message: Message, method: string): Verdict {
    if (!passes(CLIENT_NOTIFICATIONS, method)) return {};
    const isCancel = method === "notifications/cancelled";
    const isForServer = !isCancel || lose(message.params?.requestId as MessageId) || !isEnforced;
    return isForServer ? { forward: withoutProof(message) } : {};
  }

  function passedOn(message: Message): Message {
    const forward = withoutProof(message);
    return isEnforced ? withhold(forward, rules.methods) : forward;
  }

  function request(message: Message, id: MessageId, method: string): Verdict | Promise<Verdict> {
    if (open.has(id)) return { reply: errorMessage(id, -32600, "The id is in use. Nothing was done.") };
    if (open.size >= MOST_OPEN) {
      return { reply: errorMessage(id, -32603, "Too many requests are open. Nothing was done.") };
    }
    if (method === "tools/call") return handleCall(message, id);
    if (!passes(OPEN_METHODS, method)) return { reply: errorMessage(id, -32602, CLOSED) };
    open.set(id, { method });
    return { forward: passedOn(message) };
  }

  function answer(message: Message, id: MessageId, text: string): Verdict<string> {
    const waiting = own.get(id);
    if (waiting !== undefined) {
      waiting(message);
      return {};
    }
    const { method, call } = open.get(id) ?? {};
    if (method === undefined) {
      journal.refused("unexpected_response");
      return {};
    }
    open.delete(id);
    const { result } = message;
    if (call !== undefined) void finish(call, isDone(result) ? "executed" : "failed");
    return { forward: replaced(message, method) ?? text };
  }

  /** Returns the answer that a client gets in place of the server's, or `undefined`. */
  function replaced(message: Message, method: string): string | undefined {
    const { id = null, result } = message;
    if (result === undefined) return undefined;
    if (asksForClosedInput(result, rules.methods)) {
      journal.refused("closed_input");
      return isEnforced ? JSON.stringify(errorMessage(id, -32603, CLOSED_INPUT)) : undefined;
    }
    return method === "tools/list" ? visibleList(message, result) : undefined;
  }

  /** Returns the list that a client may see, or `undefined` if that is the server's own. */
  function visibleList(message: Message, result: NonNullable<Message["result"]>): string | undefined {
    if (!Array.isArray(result.tools)) return undefined;
    const visible = tools.see(result.tools);
    if (!isEnforced) return undefined;
    // Another client can have other rules, so nobody may share the list.
    const scope = "cacheScope" in result ? { cacheScope: "private" } : {};
    return JSON.stringify({ ...message, result: { ...result, tools: visible, ...scope } });
  }

  return {
    fromClient(message) {
      const { id, method } = message;
      if (method === undefined) return serverRequests.delete(id as MessageId) ? { forward: message } : {};
      return id === undefined ? notify(message, method) : request(message, id, method);
    },
    fromServer({ message, text }) {
      const { id, method } = message;
      if (method === undefined) return answer(message, id as MessageId, text);
      if (method === "notifications/tools/list_changed") tools.forget();
      if (id === undefined) return passes(SERVER_NOTIFICATIONS, method) ? { forward: text } : {};
      if (!passes(SERVER_REQUESTS, method) || serverRequests.size >= MOST_OPEN) {
        return { reply: errorMessage(id, -32601, CLOSED) };
      }
      serverRequests.add(id);
      return { forward: text };
    },
    lose,
    end() {
      for (const id of open.keys()) lose(id);
    },
  };
}

/** The revision 2026-07-28 demands this member in every result, and the older ones do not know it. */
function eraOf(meta: unknown): Readonly<Record<string, unknown>> {
  return isPlain(meta) && Object.hasOwn(meta, REVISION_OF_REQUEST) ? { resultType: "complete" } : {};
}

function isDone(result: Message["result"]): boolean {
  return result !== undefined && result.isError !== true;
}

function notification(name: string): string {
  return `notifications/${name}`;
}

/** Returns the message without a proof in `_meta`: a proof belongs to one call, and never goes upstream. */
function withoutProof(message: Message): Message {
  const { params } = message;
  const meta = withoutAuthority(params?._meta);
  return meta === undefined ? message : { ...message, params: { ...params, _meta: meta } };
}
