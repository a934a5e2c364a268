import { ClusterError } from "../../kubernetes/cluster_error.ts";
import type { AgentAnswer, AgentState, DesiredAgent } from "../../operator_calls.ts";
import { fingerprintOfKey } from "../../protocol/keys/hybrid.ts";
import type { ApiFailure, ApiResult } from "../api_transport.ts";
import type { OperatorContext } from "../context.ts";
import { type Agent, type AgentStatus, type Platform, placeOf } from "../kinds.ts";
import type { Visit } from "../queue.ts";
import { type PublishedKey, publishAgentKey, removeAgentSecret } from "./agent_key.ts";
import { agentSecretName } from "./agent_secret.ts";
import {
  definedOnly,
  type Fact,
  factsBeside,
  isOutage,
  isTrue,
  readiness,
  type Stated,
  visitIn,
  withFacts,
} from "./conditions.ts";
import { firstOf, type StatusReason } from "./ready_reasons.ts";
import { dependentsOfAgent, platformObstacle } from "./references.ts";
import { report, reportFailedWrite, reportFailure } from "./report_status.ts";
import { hasNothingToRelease, terminate } from "./termination.ts";

/** The input for a decision about an Agent. `state` is absent if the API does not know the Agent. */
export type AgentInput = {
  object: Agent;
  platform?: Platform | undefined;
  state?: AgentState | undefined;
  /** The answer to the registration during this visit. */
  answer?: AgentAnswer;
};

type Rule = (input: AgentInput) => StatusReason | undefined;

const suspended: Rule = ({ object }) =>
  object.spec.suspend === true ? { reason: "Suspended", message: "spec.suspend is true" } : undefined;

const disabled: Rule = ({ state }) =>
  state?.disabled === true
    ? { reason: "Revoked", message: "The agent was disabled in the account" }
    : undefined;

const platformReady: Rule = (input) =>
  isKnownAgent(input) ? undefined : platformObstacle(input.object.spec.platformRef.name, input.platform);

const rules: readonly Rule[] = [suspended, disabled, platformReady];

/** Returns why the operator must not register an Agent at the API yet, by the first rule that applies. */
export function agentObstacle(input: AgentInput): StatusReason | undefined {
  return firstOf(rules, (rule) => rule(input));
}

/** Returns whether the Agent's status already contains what the API would answer. */
export function isKnownAgent({ object: { metadata, status }, state }: AgentInput): boolean {
  return (
    state !== undefined &&
    status.agentID === state.agent_id &&
    status.publicKeyFingerprint !== undefined &&
    status.observedGeneration === metadata.generation
  );
}

/**
 * Registers an Agent once, which creates its key in the vault, and keeps its API key in a Secret. Ends the
 * API key of a deleted Agent, and disables the agent with deletion policy `Delete`.
 */
export async function reconcileAgent(
  context: OperatorContext,
  object: Agent,
  failures: number,
): Promise<Visit> {
  const { resources, states } = context;
  const externalId = context.externalIdOf(object);
  if (object.metadata.deletionTimestamp !== undefined) {
    const dependents = dependentsOfAgent(resources, object);
    return terminate(context, object, { dependents, release: () => release(context, object), failures });
  }
  const platform = resources.get("Platform", object.metadata.namespace, object.spec.platformRef.name);
  const found = await states.read(externalId);
  const input: AgentInput = { object, platform, state: found.value?.agent };
  if (found.failure !== undefined) return failed(context, input, found.failure);
  const verdict = agentObstacle(input);
  if (verdict === undefined) {
    return isKnownAgent(input) ? publish(context, input) : register(context, input, externalId);
  }
  await report(context, object, agentStatus(context, input, verdict), verdict);
  return {};
}

async function register(context: OperatorContext, input: AgentInput, externalId: string): Promise<Visit> {
  const { object, platform } = input;
  if (!(await context.resources.isCurrent(object))) return {};
  if (platform === undefined) throw new Error("The agent's platform is missing");
  const desired = desiredAgent(object, context.externalIdOf(platform));
  const { value, failure } = await context.api.putAgent(externalId, desired);
  if (failure !== undefined) return failed(context, input, failure);
  const found = await context.states.read(externalId);
  const state = found.value?.agent ?? { agent_id: value.agent_id, disabled: value.disabled };
  const registered: AgentInput = { ...input, state, answer: value };
  if (found.failure !== undefined) return failed(context, registered, found.failure);
  const verdict = agentObstacle(registered);
  if (verdict === undefined) return publish(context, registered);
  await report(context, object, agentStatus(context, registered, verdict), verdict);
  return {};
}

/** Keeps a registered Agent's API key in its Secret. An API of version 0.1 has no such keys. */
async function publish(context: OperatorContext, input: AgentInput): Promise<Visit> {
  const { object, platform, state } = input;
  const agentId = state?.agent_id ?? "";
  if (state?.key === undefined) {
    const verdict = active(agentId);
    await report(context, object, agentStatus(context, input, verdict), verdict);
    return {};
  }
  const keyed = { agent: object, platform, known: state.key };
  const published = await publishAgentKey(context, keyed).catch((error: unknown) => {
    if (error instanceof ClusterError) return { kind: "unwritten", error } as const;
    throw error;
  });
  if (published.kind === "unwritten") {
    return reportFailedWrite(context, object, published.error, (verdict) =>
      agentStatus(context, input, verdict),
    );
  }
  if (published.kind === "raced") return { retry: true };
  if (published.kind === "failed") {
    return failed(context, input, outageDuringUpdate(input, published.failure));
  }
  if (published.kind === "not_owned") {
    const verdict = notOwned(object);
    await report(context, object, agentStatus(context, input, verdict), verdict);
    return {};
  }
  const verdict = active(
    agentId,
    `; Secret ${agentSecretName(object)} holds API key ${published.key.api_key_prefix}`,
  );
  await report(context, object, agentStatus(context, input, verdict, published), verdict);
  return visitIn(msUntil(published.due, context.clock.agreed()));
}

/**
 * During an update of the service, one process may report an agent's key, and a former one not know this
 * call. Then the Agent stays as it is until the next try.
 */
function outageDuringUpdate({ object, platform }: AgentInput, failure: ApiFailure): ApiFailure {
  if (!isNotFound(failure)) return failure;
  if (platformObstacle(object.spec.platformRef.name, platform) !== undefined) return failure;
  return NOT_YET_UPDATED;
}

function isNotFound(failure: ApiFailure): boolean {
  return failure.kind === "refused" && failure.code === "not_found";
}

const NOT_YET_UPDATED: ApiFailure = { kind: "unavailable", message: "it does not know the agent's API key" };

async function release(context: OperatorContext, object: Agent): Promise<ApiResult<unknown>> {
  const { api } = context;
  const externalId = context.externalIdOf(object);
  const { failure } = await api.removeAgentKey(externalId);
  if (failure !== undefined) {
    // Only an API process of the former version answers so. The key would stay valid.
    if (isNotFound(failure) && object.status.apiKeyPrefix !== undefined) return { failure: NOT_YET_UPDATED };
    if (!hasNothingToRelease(failure)) return { failure };
  }
  await removeAgentSecret(context, object);
  return object.spec.deletionPolicy === "Delete" ? api.removeAgent(externalId) : { value: undefined };
}

/** Returns the body of the call that declares an Agent. */
export function desiredAgent(object: Agent, platformId: string): DesiredAgent {
  const { metadata, spec } = object;
  return {
    object: placeOf(object),
    platform_external_id: platformId,
    name: spec.displayName ?? metadata.name,
    agent_type: spec.agentType,
    ...(spec.adopt === undefined ? {} : { adopt: spec.adopt }),
  };
}

function active(agentId: string, more = ""): StatusReason {
  return { reason: "Active", message: `Agent ${agentId} has its key in the vault${more}` };
}

function notOwned(object: Agent): StatusReason {
  const message = `Secret ${agentSecretName(object)} exists and is not this Agent's; it was left as it is`;
  return { reason: "SecretNotOwned", message };
}

/** Milliseconds until the next look at the age of a key, while the clocks disagree. */
const DISAGREEMENT_MS = 60_000;

function msUntil(due: Date | undefined, agreed: Date | undefined): number | undefined {
  if (due === undefined) return undefined;
  return agreed === undefined ? DISAGREEMENT_MS : Math.max(due.getTime() - agreed.getTime(), 1000);
}

function agentStatus(
  { clock }: OperatorContext,
  { object, platform, state, answer }: AgentInput,
  verdict: StatusReason,
  published?: PublishedKey,
  hasKey = state !== undefined,
): Stated<AgentStatus> {
  const { metadata, status } = object;
  const { generation } = metadata;
  const usable = hasKey && verdict.reason !== "Revoked";
  const missing = platformObstacle(object.spec.platformRef.name, platform);
  const fact = factsBeside(verdict);
  const stored = published?.key ?? state?.key;
  const isStored =
    published !== undefined || (stored != null && stored.api_key_prefix === status.apiKeyPrefix);
  const facts: Fact[] = [
    ...readiness(verdict),
    { type: "ReferencesResolved", status: missing === undefined ? "True" : "False", ...missing },
    fact("KeyReady", usable),
    ...(stored === undefined ? [] : [fact("CredentialsPublished", isStored)]),
  ];
  return definedOnly<Stated<AgentStatus>>({
    ...status,
    ...(answer && {
      agentID: answer.agent_id,
      custodyMode: answer.custody_mode,
      publicKeyFingerprint: fingerprintOfKey(answer.public_key_json),
    }),
    ...(stored !== undefined && { apiKeyPrefix: stored?.api_key_prefix }),
    ...(published && {
      credentialsSecretName: agentSecretName(object),
      lastRotationRequest: published.lastRequest,
    }),
    observedGeneration: generation,
    conditions: withFacts(status.conditions ?? [], facts, { generation, now: clock.now() }),
  });
}

function failed(context: OperatorContext, input: AgentInput, failure: ApiFailure): Promise<Visit> {
  const { object, state, answer } = input;
  const isUnknown = isOutage(failure) && answer === undefined;
  const hasKey = isUnknown ? isTrue(object.status, "KeyReady") : state !== undefined;
  return reportFailure(context, object, failure, (verdict) =>
    agentStatus(context, input, verdict, undefined, hasKey),
  );
}
