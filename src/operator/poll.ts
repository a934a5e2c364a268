import {
  type AgentState,
  type DelegationState,
  MAX_STATE_IDS,
  type PlatformState,
  type StateAnswer,
} from "../operator_calls.ts";
import type { ApiClient } from "./api_client.ts";
import type { ApiFailure, ApiResult } from "./api_transport.ts";
import type { OperatorContext } from "./context.ts";
import { type AnyObject, type Key, keyOf } from "./kinds.ts";
import { hasDrifted } from "./reconcile/drift.ts";
import { type Reason, UNDECIDED } from "./reconcile/reasons.ts";
import { conditionOf } from "./reconcile/status.ts";
import { allObjects } from "./resources.ts";

/** What the API has under one external id; nothing of it when the id is unknown there. */
export type ExternalState = { platform?: PlatformState; agent?: AgentState; delegation?: DelegationState };

/** Reads states, several in one call. */
export type StateReader = {
  /** The state as it is after the call was made. */
  read(externalId: string): Promise<ApiResult<ExternalState>>;
};

type Waiting = { externalId: string; resolve(result: ApiResult<ExternalState>): void };

/** Calls made in the same turn of the event loop share one call of the API. */
export function createStateReader(api: Pick<ApiClient, "readState">): StateReader {
  let waiting: Waiting[] = [];

  async function flush(): Promise<void> {
    const batch = waiting;
    waiting = [];
    for (let start = 0; start < batch.length; start += MAX_STATE_IDS) {
      const part = batch.slice(start, start + MAX_STATE_IDS);
      const result = await api.readState(part.map(({ externalId }) => externalId));
      for (const { externalId, resolve } of part) {
        resolve(result.failure === undefined ? { value: stateOf(result.value, externalId) } : result);
      }
    }
  }

  return {
    read: (externalId) =>
      new Promise((resolve) => {
        if (waiting.push({ externalId, resolve }) === 1) setImmediate(() => void flush());
      }),
  };
}

/** One id's part of an answer. */
function stateOf({ platforms, agents, delegations }: StateAnswer, externalId: string): ExternalState {
  const platform = platforms[externalId];
  const agent = agents[externalId];
  const delegation = delegations[externalId];
  return { ...(platform && { platform }), ...(agent && { agent }), ...(delegation && { delegation }) };
}

/** Looks at the API for what changed there: decisions of people, the end of an outage, drift. */
export type Poll = { stop(): void };

type Options = {
  /** Has an object looked at soon, its failures forgotten. */
  enqueue(key: Key, urgent: boolean): void;
  random?: () => number;
};

type PollWorld = Pick<OperatorContext, "resources" | "api" | "clock" | "externalIdOf" | "log" | "metrics">;

/** Reasons of what will not change by itself. */
const FINAL: ReadonlySet<string> = new Set<Reason>(["Denied", "Revoked", "Expired"]);

const PROMPT_MS = 1000;
const MAX_PROMPT_MS = 15_000;
const DRIFT_MS = 10 * 60 * 1000;
/**
 * What failed for want of the API is tried again when it answers after an outage, and otherwise no oftener
 * than this.
 */
const NUDGE_MS = 15_000;
/** Calls that one prompt look may make; more objects than they hold take turns. */
const PROMPT_CALLS = 4;

/**
 * Looks every second at what awaits a decision or the API itself, and every 10 min ± 20 % at everything.
 * While the API does not answer, the looks become rarer, down to one in 15 s.
 */
export function startPoll(context: PollWorld, { enqueue, random = Math.random }: Options): Poll {
  let promptMs = PROMPT_MS;
  let lastNudge = 0;
  let turn = 0;
  let stopped = false;
  let promptTimer = setTimeout(prompt, PROMPT_MS);
  let driftTimer = setTimeout(drift, driftMs());

  function driftMs(): number {
    return DRIFT_MS * (0.8 + random() * 0.4);
  }

  async function prompt(): Promise<void> {
    const waiting = allObjects(context.resources).filter(
      (object) => waitsForDecision(object) || waitsForApi(object),
    );
    const room = PROMPT_CALLS * MAX_STATE_IDS;
    const chosen = waiting.length <= room ? waiting : rotated(waiting, turn).slice(0, room);
    turn = waiting.length === 0 ? 0 : (turn + chosen.length) % waiting.length;
    const now = context.clock.now().getTime();
    const mayNudge = promptMs > PROMPT_MS || now - lastNudge >= NUDGE_MS;
    if (mayNudge) lastNudge = now;
    const failure = await look(chosen, (object) => mayNudge && waitsForApi(object));
    promptMs = failure === undefined ? PROMPT_MS : Math.min(promptMs * 2, MAX_PROMPT_MS);
    if (!stopped) promptTimer = setTimeout(prompt, promptMs);
  }

  async function drift(): Promise<void> {
    await look(
      allObjects(context.resources),
      (object) => object.kind === "Platform" || waitsForOthers(object),
    );
    if (!stopped) driftTimer = setTimeout(drift, driftMs());
  }

  /** Asks for the states of objects and enqueues those that have drifted or need a look `anyway`. */
  async function look(
    objects: AnyObject[],
    anyway: (object: AnyObject) => boolean,
  ): Promise<ApiFailure | undefined> {
    for (let start = 0; start < objects.length && !stopped; start += MAX_STATE_IDS) {
      const part = objects.slice(start, start + MAX_STATE_IDS);
      const { value, failure } = await context.api.readState(part.map(context.externalIdOf));
      if (failure !== undefined) {
        context.log.debug({ failure }, "the API could not be asked");
        return failure;
      }
      for (const object of part) {
        judge(object, stateOf(value, context.externalIdOf(object)), anyway(object));
      }
    }
    return undefined;
  }

  function judge(object: AnyObject, state: ExternalState, anyway: boolean): void {
    const drifted = hasDrifted(object, state, context.clock.now());
    const isAwaited = waitsForDecision(object);
    if (drifted && !isAwaited) context.metrics.driftFound(object.kind);
    if (drifted || anyway) enqueue(keyOf(object), drifted && isAwaited);
  }

  return {
    stop() {
      stopped = true;
      clearTimeout(promptTimer);
      clearTimeout(driftTimer);
    },
  };
}

function readyReason(object: AnyObject): string | undefined {
  return conditionOf(object.status, "Ready")?.reason;
}

function waitsForDecision(object: AnyObject): boolean {
  if (object.kind !== "Delegation" || object.status.requestID === undefined) return false;
  return UNDECIDED.has(readyReason(object) ?? "");
}

function waitsForApi(object: AnyObject): boolean {
  return readyReason(object) === "ApiUnavailable" || readyReason(object) === "AuthorizationFailed";
}

/**
 * Whether something else than the API may have changed what the object waits for. Platforms are sent again
 * anyway.
 */
function waitsForOthers(object: AnyObject): boolean {
  const reason = readyReason(object);
  return reason === undefined || !(reason === "Active" || FINAL.has(reason));
}

function rotated<T>(items: readonly T[], by: number): T[] {
  return [...items.slice(by), ...items.slice(0, by)];
}
