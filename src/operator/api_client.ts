import type { z } from "zod";
import { type Clock, machineTime } from "../clock.ts";
import { type FollowedClock, followClock, type Reading } from "../concurrency/followed_clock.ts";
import type { ObjectPlace } from "../input/cluster_fields.ts";
import type { Logger } from "../log.ts";
import {
  type AgentAnswer,
  type AgentKeyAnswer,
  type AgentState,
  type DelegationState,
  type DesiredAgent,
  type DesiredDelegation,
  type DesiredPlatform,
  type LiveDelegation,
  MAX_STATE_IDS,
  type OperatorCall,
  operatorCalls,
  type PlatformAnswer,
  type PlatformState,
  type StateAnswer,
} from "../operator_calls.ts";
import { type ApiFailure, type ApiResult, createTokenSource, createTransport } from "./api_transport.ts";

/**
 * The API as one leader of the operator calls it. Objects are named by external id, so repeating a call
 * changes nothing. No call rejects: refusals, outages and a wrong token are returned as `failure`.
 */
export type ApiClient = {
  putPlatform(externalId: string, desired: DesiredPlatform): Promise<ApiResult<PlatformAnswer>>;
  /** Reports that the operator has stored an API key's credentials. The API then stops returning them. */
  acknowledgeCredentials(externalId: string, prefix: string): Promise<ApiResult<unknown>>;
  /**
   * Replaces the API key. The former key stays valid for `graceSeconds`. `request` is the object's current
   * request for a new key.
   */
  rotateCredentials(
    externalId: string,
    graceSeconds: number,
    request: string | undefined,
  ): Promise<ApiResult<PlatformAnswer>>;
  removePlatform(externalId: string): Promise<ApiResult<{ removed: boolean }>>;
  putAgent(externalId: string, desired: DesiredAgent): Promise<ApiResult<AgentAnswer>>;
  removeAgent(externalId: string): Promise<ApiResult<unknown>>;
  /** Returns the key of an Agent's object. Confirms that the operator has stored it if `keep` names it. */
  putAgentKey(externalId: string, wanted: WantedAgentKey): Promise<ApiResult<AgentKeyAnswer>>;
  removeAgentKey(externalId: string): Promise<ApiResult<unknown>>;
  putDelegation(externalId: string, desired: DesiredDelegation): Promise<ApiResult<DelegationState>>;
  /** Asks the API to read a user's decision from the Delegation in the cluster. */
  decideDelegation(externalId: string, object: ObjectPlace): Promise<ApiResult<DelegationState>>;
  /** With `isGone`, the object of the delegation is being deleted or is gone. */
  revokeDelegation(
    externalId: string,
    options: { reason: string | undefined; isGone: boolean },
  ): Promise<ApiResult<DelegationState>>;
  /** Returns this leader's epoch and the former leader's. The client's first call claims an epoch. */
  leadership(): Promise<ApiResult<Leadership>>;
  /** Returns a page of delegations in force or awaiting approval. `after` is the previous page's `next`. */
  listDelegations(
    after: string | null,
  ): Promise<ApiResult<{ delegations: LiveDelegation[]; next: string | null }>>;
  readState(externalIds: string[]): Promise<ApiResult<StateAnswer>>;
  close(): Promise<void>;
};

type WantedAgentKey = z.input<typeof operatorCalls.putAgentKey.body>;
type Leadership = { epoch: number; former_epoch: number | null };

type Options = {
  clock: Clock;
  baseUrl: string;
  token: string;
  tokenFile?: string | undefined;
  clusterId: string;
  /** Name of the leading process, for the API's log. */
  holder: string;
  onSuperseded(): void;
  /** Called after the API has accepted the leader. While it rejects, no other call is sent. */
  onAccepted?: (() => Promise<void>) | undefined;
  /** Returns the W3C `traceparent` header of the current trace, if there is one. */
  traceparent?: () => string | undefined;
  /** Called after every call. `result` is `ok` or the kind of failure. */
  onAnswer?: Parameters<typeof createTransport>[0]["onAnswer"];
  /** Deadline of each call in milliseconds; 20 s by default. */
  deadlineMs?: number;
};

const DEADLINE_MS = 20_000;
const NOT_RECORDED =
  "The operator registers nothing until it has recorded its cluster id in the ConfigMap deputize-cluster. The cluster did not accept that, and the operator's log says why";

const names = new Map(Object.entries(operatorCalls).map(([name, { path, method }]) => [path + method, name]));

/** Creates a client for a new leader of one cluster. Its first call claims an epoch from the API. */
export function createApiClient({
  clock,
  token,
  tokenFile,
  holder,
  onSuperseded,
  onAccepted,
  deadlineMs = DEADLINE_MS,
  ...rest
}: Options): ApiClient {
  const tokens = createTokenSource(clock, { token, file: tokenFile });
  const transport = createTransport({ ...rest, tokens, deadlineMs });
  let leadership: Promise<ApiResult<Leadership>> | undefined;

  async function claim(): Promise<ApiResult<Leadership>> {
    const { method, path, answer } = operatorCalls.claimLeadership;
    const call = { name: "claimLeadership", method, path, body: { holder }, answer: answer.schema };
    const result = await transport.send(call);
    const failure = result.failure === undefined ? await accepted() : outageOf(result.failure);
    if (failure === undefined) return result;
    leadership = undefined;
    return { failure };
  }

  async function accepted(): Promise<ApiFailure | undefined> {
    try {
      await onAccepted?.();
      return undefined;
    } catch {
      return { kind: "unrecorded", message: NOT_RECORDED };
    }
  }

  async function send<B, R>(
    call: OperatorCall<B, R>,
    externalId: string,
    body?: NoInfer<B>,
  ): Promise<ApiResult<R>> {
    const path = call.path.replace("{external_id}", encodeURIComponent(externalId));
    leadership ??= claim();
    const { value, failure } = await leadership;
    if (failure !== undefined) return { failure };
    const { epoch } = value;
    const result = await transport.send({
      name: names.get(call.path + call.method) ?? "",
      method: call.method,
      path,
      body,
      answer: call.answer.schema,
      epoch,
    });
    if (result.failure?.kind === "superseded") onSuperseded();
    return result;
  }

  return {
    putPlatform: (id, desired) => send(operatorCalls.putPlatform, id, desired),
    acknowledgeCredentials: (id, prefix) =>
      send(operatorCalls.acknowledgeCredentials, id, { api_key_prefix: prefix }),
    rotateCredentials: (id, graceSeconds, request) =>
      send(operatorCalls.rotateCredentials, id, {
        grace_seconds: graceSeconds,
        ...(request !== undefined && { request }),
      }),
    removePlatform: (id) => send(operatorCalls.removePlatform, id),
    putAgent: (id, desired) => send(operatorCalls.putAgent, id, desired),
    removeAgent: (id) => send(operatorCalls.removeAgent, id),
    putAgentKey: (id, wanted) => send(operatorCalls.putAgentKey, id, wanted),
    removeAgentKey: (id) => send(operatorCalls.removeAgentKey, id),
    putDelegation: (id, desired) => send(operatorCalls.putDelegation, id, desired),
    decideDelegation: (id, object) => send(operatorCalls.decideDelegation, id, { object }),
    revokeDelegation: (id, { reason, isGone }) =>
      send(operatorCalls.revokeDelegation, id, {
        ...(reason !== undefined && { reason }),
        ...(isGone && { object_gone: true }),
      }),
    async leadership() {
      leadership ??= claim();
      return leadership;
    },
    listDelegations: (after) => send(operatorCalls.listDelegations, "", { after }),
    readState: (ids) => send(operatorCalls.readState, "", { external_ids: ids }),
    close: () => transport.close(),
  };
}

/** Converts a refusal to assign an epoch to an outage, because it says nothing about the call's object. */
function outageOf(failure: ApiFailure): ApiFailure {
  return failure.kind === "refused" ? { kind: "unavailable", message: failure.message } : failure;
}

/** The API's state of the object with an external id. The state is empty if the API does not know the id. */
export type ExternalState = { platform?: PlatformState; agent?: AgentState; delegation?: DelegationState };

/** Reads the states of objects, many in one call of the API. */
export type StateReader = {
  /** Returns the state of an object at some moment after the call of `read`. */
  read(externalId: string): Promise<ApiResult<ExternalState>>;
};

type Waiting = { externalId: string; resolve(result: ApiResult<ExternalState>): void };

/** Creates a reader that combines all reads of one event-loop turn into as few API calls as possible. */
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

/** Returns the part of an answer that belongs to one external id. */
export function stateOf({ platforms, agents, delegations }: StateAnswer, externalId: string): ExternalState {
  const platform = platforms[externalId];
  const agent = agents[externalId];
  const delegation = delegations[externalId];
  return { ...(platform && { platform }), ...(agent && { agent }), ...(delegation && { delegation }) };
}

/** The API's clock, which follows the database's. */
export type ApiTime = {
  /** Set by each answer of {@link ApiTime.taking}. */
  clock: FollowedClock;
  /** Returns the same client. Before it returns states, it takes the API's time from the answer. */
  taking(api: ApiClient): ApiClient;
};

/** Creates a clock that follows the API's. */
export function followApi(log: Logger): ApiTime {
  let last: (Reading & { at: number }) | undefined;

  async function read(): Promise<Reading> {
    if (last === undefined) throw new Error("The API has not answered yet");
    return { time: last.time + machineTime.elapsed() - last.at, errorMs: last.errorMs };
  }

  const clock = followClock({ read, other: "the API", log });
  return {
    clock,
    taking: (api) => ({
      ...api,
      async readState(ids) {
        const begun = machineTime.elapsed();
        const result = await api.readState(ids);
        if (result.failure !== undefined) return result;
        const at = machineTime.elapsed();
        const errorMs = (at - begun) / 2;
        last = { time: Date.parse(result.value.time) + errorMs, errorMs, at };
        await clock.compare();
        return result;
      },
    }),
  };
}
