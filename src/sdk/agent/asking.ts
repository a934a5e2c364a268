import { setTimeout as sleep } from "node:timers/promises";
import type { Operation } from "../operation.ts";
import { demand, demandKnown, type Known } from "../settings.ts";
import { AgentError, AwaitingApproval, Denied } from "./errors.ts";
import type { Answer, Service } from "./service.ts";

/** How an agent asks a person about a denial. An agent that gets no `Ask` asks nobody. */
export type Ask = {
  /** The reason, in one line of at most 300 characters. People read it as the agent's own words. */
  purpose: string;
  /** Milliseconds to wait for the decision. By default 0: the agent asks, and throws `AwaitingApproval`. */
  waitMs?: number;
  /** The end of the authority that the agent asks for. By default, the person chooses it. */
  until?: Date;
  /** Whether the person can read the input of the action, up to 16 KiB of plain data. Defaults to true. */
  showPayload?: boolean;
};

/** A question for which a person's decision is needed. */
export type Question = {
  taskId: string;
  scope: string;
  /** The page on which a person decides. `undefined` if the service is not below the agent's `baseUrl`. */
  url: string | undefined;
};

/** A denied action, and how to ask about it. */
export type DeniedAction = {
  ask: Ask | undefined;
  operation: Operation;
  scope: string;
  /** The input as canonical JSON, or nothing that a person could read. */
  payload: string | undefined;
  signal: AbortSignal | undefined;
};

/** The parts of an agent with which it asks. */
export type Asker = {
  service: Service;
  isOwnLink(link: unknown): boolean;
  onAsk: (question: Question) => void;
};

/** The longest wait that the service permits in one call. */
const WAIT_SECONDS = 10;
const MOST_PAYLOAD = 16_384;
const LONGEST_WAIT_MS = 86_400_000;
const [PAUSE_MS, SHORTEST_PAUSE_MS, LONGEST_PAUSE_MS] = [5_000, 1_000, 30_000];

/** The end of the id of an action that is sent again after an application denied it. */
const AGAIN = "~asked";
const LONGEST_ID = 256 - AGAIN.length;

const ASK: Known<Ask> = { purpose: true, waitMs: true, until: true, showPayload: true };

/** Copies an {@link Ask}. Throws TypeError if it is invalid or has an unknown member. */
export function readAsk(given: Ask | undefined, invocationId = ""): Ask | undefined {
  if (given === undefined) return undefined;
  demandKnown("ask", given, ASK);
  const isShort = invocationId.length <= LONGEST_ID;
  demand(isShort, `invocationId: must have at most ${LONGEST_ID} characters with ask`);
  const { purpose, waitMs = 0, until, showPayload = true } = given;
  demand(typeof purpose === "string" && purpose.trim() !== "", "ask.purpose: must be a line of text");
  const isWait = Number.isInteger(waitMs) && waitMs >= 0 && waitMs <= LONGEST_WAIT_MS;
  demand(isWait, `ask.waitMs: must be a whole number from 0 to ${LONGEST_WAIT_MS}`);
  const isTime = until === undefined || (until instanceof Date && Number.isFinite(until.getTime()));
  demand(isTime, "ask.until: must be a valid Date");
  demand(typeof showPayload === "boolean", "ask.showPayload: must be true or false");
  return { purpose, waitMs, showPayload, ...(until && { until: new Date(until) }) };
}

/**
 * Runs `act`. If the service or the application denies the action, an approval could resolve that, and there
 * is an {@link Ask}, asks a person and runs `act` once more with the approved certificate. It never asks
 * twice. Throws `AwaitingApproval` if nobody decides in time, and otherwise the denial with its `askFault`.
 */
export async function actOrAsk<T>(
  asker: Asker,
  action: DeniedAction,
  act: (operation: Operation, certId?: string) => Promise<T>,
): Promise<T> {
  const { ask, operation } = action;
  let again = operation;
  let approved: { certId: string | undefined };
  try {
    return await act(operation);
  } catch (denial) {
    if (ask === undefined || !(denial instanceof Denied) || denial.evaluationId === undefined) throw denial;
    again = operationAfter(denial, operation);
    approved = await approval(asker, { ...action, ask, again }, denial);
  }
  return act(again, approved.certId);
}

/**
 * Returns the operation to repeat. An application has decided the action with its first id and would repeat
 * that decision, so the operation then gets another id, which follows from the first one.
 */
function operationAfter({ code }: Denied, operation: Operation): Operation {
  if (code === "no_active_delegation") return operation;
  return Object.freeze({ ...operation, invocation_id: `${operation.invocation_id}${AGAIN}` });
}

type AskedAction = DeniedAction & { ask: Ask; again: Operation };

async function approval(asker: Asker, action: AskedAction, denial: Denied) {
  try {
    return await decided(asker, action, denial);
  } catch (error) {
    if (!(error instanceof AgentError) || error instanceof AwaitingApproval) throw error;
    denial.askFault = error.code;
    throw denial;
  }
}

/** Returns the approved certificate. Throws an `AgentError` whose code says why there is none. */
async function decided(
  { service, isOwnLink, onAsk }: Asker,
  action: AskedAction,
  denial: Denied,
): Promise<{ certId: string | undefined }> {
  const { scope, again, signal } = action;
  const end = performance.now() + (action.ask.waitMs ?? 0);
  const answer = await service.ask(questionOf(action, denial), signal);
  if (answer === undefined) return { certId: undefined };
  let task = readTask(answer);
  const question = { taskId: task.id, scope, url: isOwnLink(task.url) ? String(task.url) : undefined };
  if (task.status === "pending") onAsk(question);
  let [next, isLast] = [0, action.ask.waitMs === 0];
  while (task.status === "pending") {
    if (isLast) throw new AwaitingApproval(question, again.invocation_id, denial);
    isLast = next >= end;
    const pause = Math.min(next, end) - performance.now();
    if (pause > 0) await sleep(pause, undefined, { ...(signal && { signal }) });
    const began = performance.now();
    const seconds = Math.min(WAIT_SECONDS, Math.max(0, Math.floor((end - began) / 1_000)));
    const read = await service.readAsked(task.id, seconds, signal);
    next = began + Math.min(Math.max(read?.waitMs || PAUSE_MS, SHORTEST_PAUSE_MS), LONGEST_PAUSE_MS);
    if (read?.status === 200) task = readTask(read);
  }
  if (task.status !== "approved") throw new AgentError(task.status, "The person did not approve.");
  return { certId: task.certId };
}

/** Returns the question for the service. The person reads a payload only if its hash is the operation's. */
function questionOf({ ask, operation, scope, payload }: AskedAction, denial: Denied): object {
  const isShown = ask.showPayload !== false && payload !== undefined;
  const isShort = isShown && Buffer.byteLength(payload) <= MOST_PAYLOAD;
  return {
    subject: { type: "agent", id: operation.agent_id },
    denial: { evaluation_id: denial.evaluationId },
    requested_access: { scopes: [scope], requested_until: ask.until?.toISOString() },
    context: { purpose: ask.purpose, operation, payload: isShort ? JSON.parse(payload) : undefined },
  };
}

const STATES = ["pending", "approved", "denied", "expired", "cancelled", "failed"];

function readTask({ body }: Answer) {
  const { task, result } = body as { task?: unknown; result?: unknown };
  const { id, status, links } = Object(task) as { id?: unknown; status?: unknown; links?: unknown };
  const { approval } = Object(result) as { approval?: unknown };
  const { id: certId } = Object(approval) as { id?: unknown };
  if (typeof id !== "string" || typeof status !== "string" || !STATES.includes(status)) {
    throw new AgentError("unexpected_answer", "The service did not take the question.");
  }
  const { console: url } = Object(links) as { console?: unknown };
  return { id, status, url, certId: typeof certId === "string" ? certId : undefined };
}
