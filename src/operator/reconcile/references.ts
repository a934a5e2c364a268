import type { Agent, AnyObject, Delegation, Platform } from "../kinds.ts";
import type { Resources } from "../resources.ts";
import { isTrue } from "./conditions.ts";
import type { StatusReason } from "./ready_reasons.ts";

/** Returns why no object may use a Platform yet; `undefined` if objects may use it. */
export function platformObstacle(name: string, platform: Platform | undefined): StatusReason | undefined {
  const obstacle = (what: string): StatusReason => ({
    reason: "PlatformNotReady",
    message: `Platform ${name} ${what}`,
  });
  if (platform === undefined) return obstacle("does not exist");
  if (platform.metadata.deletionTimestamp !== undefined) return obstacle("is being deleted");
  if (platform.spec.suspend === true) return obstacle("is suspended");
  return isTrue(platform.status, "Registered") ? undefined : obstacle("is not registered yet");
}

/** Returns why an Agent cannot receive authority on a Platform yet; `undefined` if the Agent can. */
export function agentObstacle(
  name: string,
  agent: Agent | undefined,
  platformName: string,
): StatusReason | undefined {
  const obstacle = (what: string): StatusReason => ({
    reason: "AgentNotReady",
    message: `Agent ${name} ${what}`,
  });
  if (agent === undefined) return obstacle("does not exist");
  if (agent.metadata.deletionTimestamp !== undefined) return obstacle("is being deleted");
  const { platformRef } = agent.spec;
  if (platformRef.name !== platformName) {
    return obstacle(`belongs to Platform ${platformRef.name}, not ${platformName}`);
  }
  return isTrue(agent.status, "KeyReady") ? undefined : obstacle("has no key yet");
}

type Lists = Pick<Resources, "list">;

/** Returns the Agents and Delegations that refer to a Platform. */
export function dependentsOfPlatform({ list }: Lists, { metadata }: Platform): AnyObject[] {
  const refers = ({ metadata: { namespace }, spec }: Agent | Delegation) =>
    namespace === metadata.namespace && spec.platformRef.name === metadata.name;
  return [...list("Agent").filter(refers), ...list("Delegation").filter(refers)];
}

/** Returns the Delegations that refer to an Agent. */
export function dependentsOfAgent({ list }: Lists, { metadata }: Agent): AnyObject[] {
  return list("Delegation").filter(
    ({ metadata: { namespace }, spec }) =>
      namespace === metadata.namespace && spec.agentRef.name === metadata.name,
  );
}
