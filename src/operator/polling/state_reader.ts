import type { AgentState, DelegationState, PlatformState } from "../../operator_calls.ts";
import { MAX_STATE_IDS, type StateAnswer } from "../../operator_calls.ts";
import type { ApiClient } from "../api/client.ts";
import type { ApiResult } from "../api/transport.ts";

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
