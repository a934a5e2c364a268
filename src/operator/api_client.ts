import type { Clock } from "../clock.ts";
import type { ObjectPlace } from "../input/cluster_fields.ts";
import {
  type AgentAnswer,
  type AgentState,
  type AgentWish,
  type DelegationState,
  type DelegationWish,
  type LiveDelegation,
  MAX_STATE_IDS,
  type OperatorCall,
  operatorCalls,
  type PlatformAnswer,
  type PlatformState,
  type PlatformWish,
  type StateAnswer,
} from "../operator_calls.ts";
import { type ApiFailure, type ApiResult, createTokenSource, createTransport } from "./api_transport.ts";

/**
 * The API as one leader of the operator sees it. Everything is named by external ids, so that repeating a
 * call changes nothing. No call rejects: a refusal, an outage, a wrong token are values.
 */
export type ApiClient = {
  putPlatform(externalId: string, wish: PlatformWish): Promise<ApiResult<PlatformAnswer>>;
  /**
   * Says that the credentials of the key with this prefix are stored, so that they are not delivered again.
   */
  acknowledgeCredentials(externalId: string, prefix: string): Promise<ApiResult<unknown>>;
  /** Replaces the API key; the one before stays good for `graceSeconds`. */
  rotateCredentials(externalId: string, graceSeconds: number): Promise<ApiResult<PlatformAnswer>>;
  removePlatform(externalId: string): Promise<ApiResult<unknown>>;
  putAgent(externalId: string, wish: AgentWish): Promise<ApiResult<AgentAnswer>>;
  removeAgent(externalId: string): Promise<ApiResult<unknown>>;
  putDelegation(externalId: string, wish: DelegationWish): Promise<ApiResult<DelegationState>>;
  /** Has the API read in the cluster how a person decided there. */
  decideDelegation(externalId: string, object: ObjectPlace): Promise<ApiResult<DelegationState>>;
  revokeDelegation(externalId: string, reason: string | undefined): Promise<ApiResult<DelegationState>>;
  /** The epoch of this leader, and of the one before; claimed with the first call. */
  leadership(): Promise<ApiResult<Leadership>>;
  /** A page of what is in force or waits, `after` the last one of the page before. */
  listDelegations(
    after: string | null,
  ): Promise<ApiResult<{ delegations: LiveDelegation[]; next: string | null }>>;
  /** What is there under at most `MAX_STATE_IDS` ids. */
  readState(externalIds: string[]): Promise<ApiResult<StateAnswer>>;
  close(): Promise<void>;
};

type Leadership = { epoch: number; former_epoch: number | null };

type Options = {
  clock: Clock;
  baseUrl: string;
  token: string;
  tokenFile?: string | undefined;
  clusterId: string;
  /** Which process leads, for the API's log. */
  holder: string;
  /** Called each time that a call is refused because a newer leader was given its epoch. */
  onSuperseded(): void;
  /** The trace that a call is a part of, if it is. */
  traceparent?: () => string | undefined;
  /** Told of every call's end: its name, `ok` or a kind of failure, and how long it took. */
  onAnswer?: Parameters<typeof createTransport>[0]["onAnswer"];
  /** Deadline of every call. */
  deadlineMs?: number;
};

const DEADLINE_MS = 20_000;

/** What each call is called, by path and method. */
const names = new Map(Object.entries(operatorCalls).map(([name, { path, method }]) => [path + method, name]));

/** A client for a new leader of one cluster: its first call has the API give it an epoch. */
export function createApiClient({
  clock,
  token,
  tokenFile,
  holder,
  onSuperseded,
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
    if (result.failure === undefined) return result;
    leadership = undefined;
    return { failure: outageOf(result.failure) };
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
    putPlatform: (id, wish) => send(operatorCalls.putPlatform, id, wish),
    acknowledgeCredentials: (id, prefix) =>
      send(operatorCalls.acknowledgeCredentials, id, { api_key_prefix: prefix }),
    rotateCredentials: (id, graceSeconds) =>
      send(operatorCalls.rotateCredentials, id, { grace_seconds: graceSeconds }),
    removePlatform: (id) => send(operatorCalls.removePlatform, id),
    putAgent: (id, wish) => send(operatorCalls.putAgent, id, wish),
    removeAgent: (id) => send(operatorCalls.removeAgent, id),
    putDelegation: (id, wish) => send(operatorCalls.putDelegation, id, wish),
    decideDelegation: (id, object) => send(operatorCalls.decideDelegation, id, { object }),
    revokeDelegation: (id, reason) =>
      send(operatorCalls.revokeDelegation, id, reason === undefined ? {} : { reason }),
    async leadership() {
      leadership ??= claim();
      return leadership;
    },
    listDelegations: (after) => send(operatorCalls.listDelegations, "", { after }),
    readState: (ids) => send(operatorCalls.readState, "", { external_ids: ids }),
    close: () => transport.close(),
  };
}

/** That nobody could lead says nothing about the object of the call. */
function outageOf(failure: ApiFailure): ApiFailure {
  return failure.kind === "refused" ? { kind: "unavailable", message: failure.message } : failure;
}

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
export function stateOf({ platforms, agents, delegations }: StateAnswer, externalId: string): ExternalState {
  const platform = platforms[externalId];
  const agent = agents[externalId];
  const delegation = delegations[externalId];
  return { ...(platform && { platform }), ...(agent && { agent }), ...(delegation && { delegation }) };
}
