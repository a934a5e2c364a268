import type { ZodType } from "zod";
import type { Clock } from "../../clock.ts";
import type { AgentAnswer, DelegationState, PlatformAnswer, StateAnswer } from "./answers.ts";
import * as answers from "./answers.ts";
import type { ApiResult } from "./failure.ts";
import { createTokenSource } from "./token.ts";
import { createTransport } from "./transport.ts";

export type { AgentAnswer, DelegationState, PlatformAnswer, StateAnswer } from "./answers.ts";
export type { ApiFailure, ApiResult } from "./failure.ts";

/** A platform as the operator wants it. Without `callback_url` that stays as it is. */
export type PlatformWish = {
  account_email: string;
  name: string;
  description: string;
  surface_type: string;
  default_allowed_scopes: string[];
  callback_url?: string | null;
  /** All that are accepted, and no others. */
  accepted_principals: { human_id: string; scopes: string[]; accepted_until?: string }[];
};

/** An agent as the operator wants it. */
export type AgentWish = { platform_external_id: string; name: string; agent_type: string };

/** A delegation as the operator asks for it; `expires_in` counts seconds from the approval. */
export type DelegationWish = {
  platform_external_id: string;
  agent_external_id: string;
  requested_scope: string[];
  expires_at?: string;
  expires_in?: number;
  constraints?: unknown[];
};

/** External ids that one look at the state may name. */
export const MAX_STATE_IDS = 500;

/**
 * The API as the operator sees it. Everything is named by external ids, so that repeating a call changes
 * nothing. No call rejects: a refusal, an outage, a wrong token are values.
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
  revokeDelegation(externalId: string, reason: string | undefined): Promise<ApiResult<DelegationState>>;
  /** What is there under at most `MAX_STATE_IDS` ids. */
  readState(externalIds: string[]): Promise<ApiResult<StateAnswer>>;
  close(): Promise<void>;
};

type Options = {
  clock: Clock;
  baseUrl: string;
  token: string;
  tokenFile?: string | undefined;
  clusterId: string;
  /** Grows with every new leader of the cluster. */
  epoch: number;
  /** Deadline of every call. */
  deadlineMs?: number;
};

const DEADLINE_MS = 20_000;

/** A client for one cluster. */
export function createApiClient({
  clock,
  token,
  tokenFile,
  deadlineMs = DEADLINE_MS,
  ...rest
}: Options): ApiClient {
  const tokens = createTokenSource(clock, { token, file: tokenFile });
  const transport = createTransport({ ...rest, tokens, deadlineMs });
  const put = <T>(path: string, body: object, answer: ZodType<T>) =>
    transport.send({ method: "PUT", path, body, answer });
  const post = <T>(path: string, body: object, answer: ZodType<T>) =>
    transport.send({ method: "POST", path, body, answer });
  const remove = (path: string) => transport.send({ method: "DELETE", path, answer: answers.removed });
  return {
    putPlatform: (id, wish) => put(platform(id), wish, answers.platformAnswer),
    acknowledgeCredentials: (id, prefix) =>
      post(`${platform(id)}/credentials/acknowledge`, { api_key_prefix: prefix }, answers.acknowledged),
    rotateCredentials: (id, graceSeconds) =>
      post(`${platform(id)}/credentials/rotate`, { grace_seconds: graceSeconds }, answers.platformAnswer),
    removePlatform: (id) => remove(platform(id)),
    putAgent: (id, wish) => put(agent(id), wish, answers.agentAnswer),
    removeAgent: (id) => remove(agent(id)),
    putDelegation: (id, wish) => put(delegation(id), wish, answers.delegationState),
    revokeDelegation: (id, reason) =>
      post(`${delegation(id)}/revoke`, reason === undefined ? {} : { reason }, answers.delegationState),
    readState: (ids) => post("/internal/v1/state", { external_ids: ids }, answers.stateAnswer),
    close: () => transport.close(),
  };
}

const platform = (id: string) => `/internal/v1/platforms/${encodeURIComponent(id)}`;
const agent = (id: string) => `/internal/v1/agents/${encodeURIComponent(id)}`;
const delegation = (id: string) => `/internal/v1/delegations/${encodeURIComponent(id)}`;
