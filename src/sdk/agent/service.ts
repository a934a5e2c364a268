import { setTimeout as sleep } from "node:timers/promises";
import type { Operation } from "../operation.ts";
import { type Exchange, exchange } from "../service/exchange.ts";
import { createLookUp, OWN_KEY_PATH, readObject, readOwnKey } from "../service/own_key.ts";
import type { ReadSettings } from "../settings.ts";
import { AgentError, refusalError, Unavailable, WrongVerifier } from "./errors.ts";
import type { AgentVerifier } from "./verifiers.ts";

/** The agent and its connection, as the service knows them. */
export type Self = { connectionId: string; agentId: string; own: AgentVerifier };

/** The proof to request. */
export type ProofAsked = {
  operation: Operation;
  requiredScope: string;
  verifierConnectionId: string | undefined;
  certId: string | undefined;
  signal?: AbortSignal | undefined;
};

/** The agent's calls of the service. */
export type Service = {
  /** Returns the ids of the API key. Rejects with the signal's reason as soon as it aborts. */
  readSelf(signal?: AbortSignal): Promise<Self>;
  /** Returns a `proof_ref` of the operation. Throws `AgentError`. Repeats calls that signed nothing. */
  present(asked: ProofAsked): Promise<string>;
  /** Files a request. Returns nothing if the agent has the authority already. Throws `AgentError`. */
  ask(body: object, signal?: AbortSignal): Promise<Answer | undefined>;
  /** Returns a request, after its decision or the seconds. Repeat the call unless the status is 200. */
  readAsked(id: string, seconds: number, signal?: AbortSignal): Promise<Answer | undefined>;
  /** Withdraws a request. Throws `AgentError`. */
  cancelAsked(id: string): Promise<void>;
};

type Settings = Pick<ReadSettings, "address" | "header" | "apiKey" | "agent" | "timeoutMs"> & {
  pausesMs: readonly number[];
  agentId: string | undefined;
};

type CallOptions = {
  key?: string;
  invocationId?: string;
  signal?: AbortSignal | undefined;
  /** The code of the error if no call was answered. */
  fault?: string;
};

/** A response of the service. `waitMs`: after this time, a call may be repeated. */
export type Answer = { status: number; body: Readonly<Record<string, unknown>>; waitMs: number };

/** The longest wait that a 429 can ask for. After a longer one, the caller gets the error immediately. */
const LONGEST_WAIT_MS = 30_000;
const ASKING = "access-requests";
const TRANSIENT = [429, 500, 502, 503, 504];

/** Creates the calls. They never follow a redirect, and none of their errors contains the API key. */
export function createService(settings: Settings): Service {
  /** Makes one call, which may take `moreMs` longer than others. */
  async function callOnce(path: string, body: unknown, { key, signal }: CallOptions, moreMs = 0) {
    const answered = await exchange({
      url: settings.address(path),
      headers: { [settings.header("api-key")]: key ?? settings.apiKey() },
      body: body === undefined ? undefined : JSON.stringify(body),
      agent: settings.agent,
      timeoutMs: settings.timeoutMs + moreMs,
      signal,
    });
    signal?.throwIfAborted();
    return readAnswer(answered);
  }

  async function call(path: string, body: unknown, options: CallOptions = {}): Promise<Answer> {
    const { invocationId, signal, fault = "proof_unavailable" } = options;
    let code = fault;
    for (const pause of [...settings.pausesMs, undefined]) {
      const answer = await callOnce(path, body, options);
      if (answer !== undefined && !TRANSIENT.includes(answer.status)) return answer;
      const { waitMs, ...found } = faultOf(answer, fault);
      code = found.code;
      if (pause === undefined || waitMs > LONGEST_WAIT_MS) break;
      await sleep(Math.max(pause, waitMs), undefined, { ...(signal && { signal }) });
    }
    throw new Unavailable(code, "The service made no proof. Nothing was done.", invocationId);
  }

  const lookUp = createLookUp(async (key): Promise<Self> => {
    const { status, body } = await call(OWN_KEY_PATH, undefined, { key });
    const own = status === 200 ? readOwnKey(body) : undefined;
    if (own === undefined) throw refused(body);
    const agentId = settings.agentId ?? own.agentId;
    if (!isText(agentId)) throw new TypeError("agentId: is required, as the API key is not an agent's own");
    const { connectionId } = own;
    return { connectionId, agentId, own: { ...own.verifier, connectionId } };
  });

  return {
    readSelf: async (signal) => lookUp(settings.apiKey(), signal),

    async present({ operation, requiredScope, verifierConnectionId, certId, signal }) {
      const { connectionId, agentId } = await this.readSelf(signal);
      const path = [connectionId, agentId].map(encodeURIComponent).join("/agents/");
      const asked = {
        operation,
        required_scope: requiredScope,
        verifier_connection_id: verifierConnectionId,
        cert_id: certId,
      };
      const { invocation_id: invocationId } = operation;
      const { status, body } = await call(`connections/${path}/present`, asked, { invocationId, signal });
      if (status === 200 && isText(body.proof_ref)) return body.proof_ref;
      throw refused(body, invocationId);
    },

    async ask(asked, signal) {
      const answer = await call(ASKING, asked, { signal, fault: "service_unavailable" });
      if (answer.status === 202) return answer;
      if (codeOf(answer.body) === "already_delegated") return undefined;
      throw refused(answer.body);
    },

    async readAsked(id, seconds, signal) {
      const path = `${ASKING}/${encodeURIComponent(id)}?wait=${seconds}`;
      const answer = await callOnce(path, undefined, { signal }, seconds * 1_000);
      if (answer === undefined || [200, ...TRANSIENT].includes(answer.status)) return answer;
      throw refused(answer.body);
    },

    async cancelAsked(id) {
      const { status, body } = await call(
        `${ASKING}/${encodeURIComponent(id)}/cancel`,
        {},
        { fault: "service_unavailable" },
      );
      if (status !== 200) throw refused(body);
    },
  };
}

function faultOf(answer: Answer | undefined, fault: string): { code: string; waitMs: number } {
  if (answer?.status !== 429) return { code: fault, waitMs: 0 };
  return { code: codeOf(answer.body), waitMs: answer.waitMs };
}

function refused(body: Answer["body"], invocationId?: string): AgentError {
  const code = codeOf(body);
  if (code === "verifier_mismatch") {
    return new WrongVerifier(code, "The service knows no such verifier. Nothing was sent.", invocationId);
  }
  const known =
    code === "no_active_delegation" ? refusalError(code, invocationId ?? "", body.evaluation_id) : undefined;
  return (
    known ?? new AgentError(code, "The service refused to make a proof. Nothing was done.", invocationId)
  );
}

/** Returns the code of an error in the service's format, with the letters that codes have. */
function codeOf({ error }: Answer["body"]): string {
  const { code } = Object(error) as { code?: unknown };
  return typeof code === "string" && /^[a-z_]{1,64}$/.test(code) ? code : "unexpected_answer";
}

function readAnswer(answered: Exchange): Answer | undefined {
  if (!answered.answered) return undefined;
  const { status, retryAfter = "" } = answered;
  const waitMs = /^\d{1,9}$/.test(retryAfter) ? Number(retryAfter) * 1_000 : 0;
  return { status, body: readObject(answered.body), waitMs };
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}
