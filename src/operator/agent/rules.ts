import type { AgentState } from "../../operator_calls.ts";
import type { Agent, Platform } from "../kinds.ts";
import { platformObstacle } from "../references.ts";
import type { StatusReason } from "../status/reasons.ts";

/** Everything that a decision about an Agent depends on. `state`: what the API has, if it knows the Agent. */
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

/**
 * Why an Agent is not there yet and the API is not to be asked for it; of the rules the first that has
 * something to say.
 */
export function agentObstacle(input: AgentInput): StatusReason | undefined {
  for (const rule of rules) {
    const verdict = rule(input);
    if (verdict !== undefined) return verdict;
  }
  return undefined;
}

/** Whether the status already says what the API would answer. */
export function isKnownAgent({ object: { metadata, status }, state }: AgentInput): boolean {
  return (
    state !== undefined &&
    status.agentID === state.agent_id &&
    status.publicKeyFingerprint !== undefined &&
    status.observedGeneration === metadata.generation
  );
}
