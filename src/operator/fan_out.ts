import type { AnyObject, Delegation } from "./kinds.ts";
import { agentSecretName } from "./reconcile/agent_secret.ts";
import { conditionOf, isTrue } from "./reconcile/conditions.ts";
import { secretName } from "./reconcile/platform_secret.ts";
import { allObjects, type Change, type Resources } from "./resources.ts";

type Copy = Pick<Resources, "list" | "get">;

/** Returns the changed object, the objects that refer to it, and the objects whose deletion waits for it. */
export function concerned(copy: Copy, change: Change): AnyObject[] {
  switch (change.kind) {
    case "Platform":
      return [...changed(copy, change.kind, change), ...referringToPlatform(copy, change)];
    case "Agent":
      return [
        ...changed(copy, change.kind, change),
        ...referringToAgent(copy, change),
        ...leaving(copy, change),
      ];
    case "Delegation":
      return [...changed(copy, change.kind, change), ...leaving(copy, change)];
    case "Secret":
      return publishedIn(copy, change);
    case "Bindings":
      return [...copy.list("Platform"), ...copy.list("Delegation").filter(isAwaiting)];
    case "Namespace":
      return allObjects(copy).filter(({ metadata }) => metadata.namespace === change.name);
  }
}

/** The message of a Delegation that awaits approval says whether its namespace's binding prevents one. */
function isAwaiting({ status }: Delegation): boolean {
  return conditionOf(status, "Ready")?.reason === "AwaitingApproval";
}

function changed(copy: Copy, kind: AnyObject["kind"], { namespace, name }: Change): AnyObject[] {
  const object: AnyObject | undefined = copy.get(kind, namespace, name);
  return object === undefined ? [] : [object];
}

function referringToPlatform(copy: Copy, { namespace, name }: Change): AnyObject[] {
  return [...copy.list("Agent"), ...copy.list("Delegation")].filter(
    ({ metadata, spec }) => metadata.namespace === namespace && spec.platformRef.name === name,
  );
}

function referringToAgent(copy: Copy, { namespace, name }: Change): AnyObject[] {
  return copy
    .list("Delegation")
    .filter(({ metadata, spec }) => metadata.namespace === namespace && spec.agentRef.name === name);
}

/** Returns the Platforms and Agents under deletion, which may have waited for this object to disappear. */
function leaving(copy: Copy, { namespace }: Change): AnyObject[] {
  const objects: AnyObject[] = [...copy.list("Platform"), ...copy.list("Agent")];
  return objects.filter(
    ({ metadata }) => metadata.namespace === namespace && metadata.deletionTimestamp !== undefined,
  );
}

function publishedIn(copy: Copy, { namespace, name }: Change): AnyObject[] {
  const platforms = copy
    .list("Platform")
    .filter(
      (platform) =>
        platform.metadata.namespace === namespace &&
        (secretName(platform) === name || platform.status.credentialsSecretName === name),
    );
  const agents = copy
    .list("Agent")
    .filter((agent) => agent.metadata.namespace === namespace && agentSecretName(agent) === name);
  return [...platforms, ...agents];
}

/** Work that users wait for: the end of an authority (`revoke`) or the effect of a decision (`decide`). */
export type Urgency = "revoke" | "decide";

/** Returns the work that users wait for on a Delegation, if there is any. */
export function urgencyOf({ metadata, spec, status }: Delegation): Urgency | undefined {
  if (metadata.deletionTimestamp !== undefined) return "revoke";
  if (spec.revoked === true) return isTrue(status, "Revoked") ? undefined : "revoke";
  const isDecided = isTrue(status, "Approved") || isTrue(status, "Denied");
  return status.approval === undefined || isDecided ? undefined : "decide";
}

/** Returns whether to handle an object before others, because of a deletion, revocation or new decision. */
export function isUrgent(object: AnyObject): boolean {
  if (object.metadata.deletionTimestamp !== undefined) return true;
  return object.kind === "Delegation" && urgencyOf(object) !== undefined;
}
