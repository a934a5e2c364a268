import type { AgentAnswer, AgentState, DesiredAgent } from "../../operator_calls.ts";
import { fingerprintOfKey } from "../../protocol/keys/hybrid.ts";
import type { ApiFailure } from "../api_transport.ts";
import type { OperatorContext } from "../context.ts";
import { type Agent, type AgentStatus, type Platform, placeOf } from "../kinds.ts";
import type { Visit } from "../queue.ts";
import {
  definedOnly,
  type Fact,
  factsBeside,
  isOutage,
  isTrue,
  readiness,
  type Stated,
  withFacts,
} from "./conditions.ts";
import { firstOf, type StatusReason } from "./ready_reasons.ts";
import { dependentsOfAgent, platformObstacle } from "./references.ts";
import { report, reportFailure } from "./report_status.ts";
import { terminate } from "./termination.ts";

/** The input for a decision about an Agent. `state` is absent if the API does not know the Agent. */
export type AgentInput = {
  object: Agent;
  platform?: Platform | undefined;
  state?: AgentState | undefined;
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

/** Registers an Agent once, which creates its key. Disables a deleted Agent with deletion policy `Delete`. */
export async function reconcileAgent(
  context: OperatorContext,
  object: Agent,
  failures: number,
): Promise<Visit> {
  const { api, resources, states } = context;
  const externalId = context.externalIdOf(object);
  if (object.metadata.deletionTimestamp !== undefined) {
    const dependents = dependentsOfAgent(resources, object);
    const release = async () =>
      object.spec.deletionPolicy === "Delete" ? api.removeAgent(externalId) : { value: undefined };
    return terminate(context, object, { dependents, release, failures });
  }
  const platform = resources.get("Platform", object.metadata.namespace, object.spec.platformRef.name);
  const found = await states.read(externalId);
  const input: AgentInput = { object, platform, state: found.value?.agent };
  if (found.failure !== undefined) return failed(context, input, found.failure);
  const verdict =
    agentObstacle(input) ?? (isKnownAgent(input) ? active(object.status.agentID ?? "") : undefined);
  if (verdict === undefined) return register(context, input, externalId);
  await report(context, object, agentStatus(context, input, verdict, input.state !== undefined), verdict);
  return {};
}

async function register(context: OperatorContext, input: AgentInput, externalId: string): Promise<Visit> {
  const { object, platform } = input;
  if (!(await context.resources.isCurrent(object))) return {};
  if (platform === undefined) throw new Error("The agent's platform is missing");
  const desired = desiredAgent(object, context.externalIdOf(platform));
  const { value, failure } = await context.api.putAgent(externalId, desired);
  if (failure !== undefined) return failed(context, input, failure);
  const verdict = agentObstacle({ ...input, state: value }) ?? active(value.agent_id);
  await report(context, object, agentStatus(context, input, verdict, true, value), verdict);
  return {};
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

function active(agentId: string): StatusReason {
  return { reason: "Active", message: `Agent ${agentId} has its key in the vault` };
}

function agentStatus(
  { clock }: OperatorContext,
  { object, platform }: AgentInput,
  verdict: StatusReason,
  hasKey: boolean,
  answer?: AgentAnswer,
): Stated<AgentStatus> {
  const { generation } = object.metadata;
  const usable = hasKey && verdict.reason !== "Revoked";
  const missing = platformObstacle(object.spec.platformRef.name, platform);
  const facts: Fact[] = [
    ...readiness(verdict),
    { type: "ReferencesResolved", status: missing === undefined ? "True" : "False", ...missing },
    factsBeside(verdict)("KeyReady", usable),
  ];
  return definedOnly<Stated<AgentStatus>>({
    ...object.status,
    ...(answer && {
      agentID: answer.agent_id,
      custodyMode: answer.custody_mode,
      publicKeyFingerprint: fingerprintOfKey(answer.public_key_json),
    }),
    observedGeneration: generation,
    conditions: withFacts(object.status.conditions ?? [], facts, { generation, now: clock.now() }),
  });
}

function failed(context: OperatorContext, input: AgentInput, failure: ApiFailure): Promise<Visit> {
  const { object, state } = input;
  const hasKey = isOutage(failure) ? isTrue(object.status, "KeyReady") : state !== undefined;
  return reportFailure(context, object, failure, (verdict) => agentStatus(context, input, verdict, hasKey));
}
