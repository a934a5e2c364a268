import { elapsedClock } from "../clock.ts";
import { type Backoff, backoff } from "../concurrency/backoff.ts";
import { MAX_STATE_IDS } from "../operator_calls.ts";
import { type ExternalState, stateOf } from "./api_client.ts";
import type { ApiFailure } from "./api_transport.ts";
import type { OperatorContext } from "./context.ts";
import { type AnyObject, type Key, keyOf } from "./kinds.ts";
import { conditionOf } from "./reconcile/conditions.ts";
import { hasDrifted } from "./reconcile/drift.ts";
import { type Reason, UNDECIDED } from "./reconcile/ready_reasons.ts";
import { allObjects, isServed } from "./resources.ts";

/** Polls the API for changes: users' decisions, recovery after an outage, and drift. */
export type Poll = { stop(): void };

type Options = {
  /** Reconciles an object soon, and forgets its earlier failures. */
  enqueue(key: Key, urgent: boolean): void;
  random?: () => number;
};

type PollWorld = Pick<OperatorContext, "resources" | "api" | "clock" | "externalIdOf" | "log" | "metrics">;

/** Reasons of states that never change unless a user acts. */
const FINAL: ReadonlySet<string> = new Set<Reason>(["Denied", "Revoked", "Expired"]);

const PROMPT_MS = 1000;
/** Backoff in milliseconds while the API does not answer. */
const RETRIES: Backoff = { base: 2 * PROMPT_MS, cap: 15_000 };
const DRIFT_MS = 10 * 60 * 1000;
/**
 * Minimum time between two retries of objects that failed during an outage. The first successful poll after
 * the outage retries them immediately. Also the time between two polls while no object waits.
 */
const NUDGE_MS = 15_000;
/** Maximum number of API calls in one prompt poll. If more objects wait, they take turns. */
const PROMPT_CALLS = 4;

/**
 * Polls the objects that await a decision or the API every second, and all objects every 10 min ± 20 %. While
 * no object waits, asks the API without objects every 15 s, because each answer contains the API's time.
 * While the API does not answer, the interval grows to at most 15 s.
 */
export function startPoll(context: PollWorld, { enqueue, random = Math.random }: Options): Poll {
  let failures = 0;
  let lastNudge = Number.NEGATIVE_INFINITY;
  let turn = 0;
  let stopped = false;
  let promptTimer = setTimeout(prompt, PROMPT_MS);
  let driftTimer = setTimeout(drift, driftMs());

  function served(): AnyObject[] {
    return allObjects(context.resources).filter((object) => isServed(context.resources, object));
  }

  function driftMs(): number {
    return DRIFT_MS * (0.8 + random() * 0.4);
  }

  /** Returns the objects that wait. If they are too many for one poll, they take turns. */
  function nextWaiting(): AnyObject[] {
    const waiting = served().filter((object) => waitsForDecision(object) || waitsForApi(object));
    const room = PROMPT_CALLS * MAX_STATE_IDS;
    const chosen = waiting.length <= room ? waiting : rotated(waiting, turn).slice(0, room);
    turn = waiting.length === 0 ? 0 : (turn + chosen.length) % waiting.length;
    return chosen;
  }

  async function prompt(): Promise<void> {
    const chosen = nextWaiting();
    const now = elapsedClock.now().getTime();
    const mayNudge = failures > 0 || now - lastNudge >= NUDGE_MS;
    if (mayNudge) lastNudge = now;
    const isDue = chosen.length > 0 || mayNudge;
    const failure = isDue ? await look(chosen, (object) => mayNudge && waitsForApi(object)) : undefined;
    failures = failure === undefined ? 0 : failures + 1;
    const waitMs = failures === 0 ? PROMPT_MS : backoff(RETRIES, failures);
    if (!stopped) promptTimer = setTimeout(prompt, waitMs);
  }

  async function drift(): Promise<void> {
    await look(served(), (object) => object.kind === "Platform" || mayWaitForOthers(object));
    if (!stopped) driftTimer = setTimeout(drift, driftMs());
  }

  /** Calls the API at least once. Enqueues the objects that have drifted, or for which `anyway` is true. */
  async function look(
    objects: AnyObject[],
    anyway: (object: AnyObject) => boolean,
  ): Promise<ApiFailure | undefined> {
    let start = 0;
    do {
      const part = objects.slice(start, start + MAX_STATE_IDS);
      const { value, failure } = await context.api.readState(part.map(context.externalIdOf));
      if (failure !== undefined) {
        context.log.debug({ failure }, "the states of objects could not be read from the API");
        return failure;
      }
      for (const object of part) {
        enqueueIfNeeded(object, stateOf(value, context.externalIdOf(object)), anyway(object));
      }
      start += MAX_STATE_IDS;
    } while (start < objects.length && !stopped);
    return undefined;
  }

  function enqueueIfNeeded(object: AnyObject, state: ExternalState, anyway: boolean): void {
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

/** Platforms need no check here, because the caller always enqueues them. */
function mayWaitForOthers(object: AnyObject): boolean {
  const reason = readyReason(object);
  return reason === undefined || !(reason === "Active" || FINAL.has(reason));
}

function rotated<T>(items: readonly T[], by: number): T[] {
  return [...items.slice(by), ...items.slice(0, by)];
}
