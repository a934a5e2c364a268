import type { Agent, Delegation, Platform } from "../operator/kinds.ts";
import { agentSecretName } from "../operator/reconcile/agent_secret.ts";
import { secretName } from "../operator/reconcile/platform_secret.ts";
import { coversScopes } from "../protocol/documents/scopes.ts";
import type { Objection } from "./api_rules.ts";
import { shown } from "./entries.ts";
import { nearest } from "./suggest.ts";
import { type Declared, objectIn, objectsOf, type World } from "./world.ts";

/**
 * Returns what is wrong with an object together with the other declared ones. Something that is not declared
 * may exist elsewhere, so it causes only a warning.
 */
export function folderObjections({ object }: Declared, world: World): Objection[] {
  switch (object.kind) {
    case "Platform": {
      const { spec } = object;
      const accepted = (spec.acceptedPrincipals ?? []).map(({ scopes }) => scopes);
      return [
        ...bindingObjections(object.metadata.namespace, world),
        ...ceilingObjections("spec.defaultAllowedScopes", spec.defaultAllowedScopes, object, world),
        ...accepted.flatMap((scopes, index) =>
          ceilingObjections(`spec.acceptedPrincipals[${index}].scopes`, scopes, object, world),
        ),
        ...secretObjections(object, world),
      ];
    }
    case "Agent":
      return platformObjections(object, world);
    case "Delegation":
      return [
        ...platformObjections(object, world),
        ...agentObjections(object, world),
        ...scopeObjections(object, world),
        ...requesterObjections(object, world),
      ];
  }
}

/** A folder without any bindings leaves them to somebody else. */
function bindingObjections(namespace: string, { bindings }: World): Objection[] {
  if (bindings.size === 0 || bindings.has(namespace)) return [];
  const suggestion = nearest(namespace, bindings.keys());
  const message = `no ConfigMap here binds the namespace ${namespace} to an account`;
  return [{ path: "metadata.namespace", message, suggestion, isWarning: true }];
}

function ceilingObjections(
  path: string,
  scopes: readonly string[],
  { metadata }: { metadata: { namespace: string } },
  { bindings }: World,
): Objection[] {
  const ceiling = bindings.get(metadata.namespace)?.account?.ceiling;
  return ceiling === undefined ? [] : beyond(ceiling, scopes, path, "the namespace's ceiling");
}

/** Returns an objection for each scope that the ceiling does not cover as a whole. */
function beyond(ceiling: readonly string[], scopes: readonly string[], path: string, what: string) {
  return scopes.flatMap((scope, index): Objection[] => {
    const over = coversScopes(ceiling, [scope]);
    if (over.length === 0) return [];
    const message = over.includes(scope) ? "is" : `grants ${over.join(", ")}, which is`;
    return [{ path: `${path}[${index}]`, message: `${shown(scope)} ${message} beyond ${what}` }];
  });
}

function secretObjections(object: Platform, world: World): Objection[] {
  const { namespace, name } = object.metadata;
  const secret = secretName(object);
  const platforms = objectsOf(world, "Platform").map((each) => each.object);
  const agents = objectsOf(world, "Agent").map((each) => each.object);
  const isHere = (each: Platform | Agent) => each.metadata.namespace === namespace;
  const other =
    platforms.find((each) => isHere(each) && each.metadata.name !== name && secretName(each) === secret) ??
    agents.find((each) => isHere(each) && agentSecretName(each) === secret);
  if (other === undefined) return [];
  const message = `${other.kind} ${other.metadata.name} has its credentials in the same Secret, ${secret}`;
  return [{ path: "spec.credentialsSecretName", message }];
}

function platformObjections({ metadata, spec }: Agent | Delegation, world: World): Objection[] {
  const { namespace } = metadata;
  const { name } = spec.platformRef;
  if (isDeclared(world, "Platform", namespace, name)) return [];
  return [missing("spec.platformRef.name", `Platform ${name}`, name, namesIn(world, "Platform", namespace))];
}

function agentObjections({ metadata: { namespace }, spec }: Delegation, world: World): Objection[] {
  const { name } = spec.agentRef;
  const path = "spec.agentRef.name";
  const agent = objectIn(world, { kind: "Agent", namespace, name });
  if (agent !== undefined) {
    const { name: platform } = agent.spec.platformRef;
    if (platform === spec.platformRef.name) return [];
    const message = `Agent ${name} belongs to Platform ${platform}, not ${spec.platformRef.name}`;
    return [{ path, message }];
  }
  if (isDeclared(world, "Agent", namespace, name)) return [];
  return [missing(path, `Agent ${name}`, name, namesIn(world, "Agent", namespace))];
}

/** A refused declaration counts too, because its own faults are enough to report. */
function isDeclared(world: World, kind: "Platform" | "Agent", namespace: string, name: string): boolean {
  const others = [...world.refused, ...world.repeated].map(({ key }) => key);
  return (
    objectIn(world, { kind, namespace, name }) !== undefined ||
    others.some((key) => key.kind === kind && key.namespace === namespace && key.name === name)
  );
}

function namesIn(world: World, kind: "Platform" | "Agent", namespace: string): string[] {
  return objectsOf(world, kind)
    .filter(({ object: { metadata } }) => metadata.namespace === namespace)
    .map(({ object: { metadata } }) => metadata.name);
}

function missing(path: string, what: string, name: string, names: readonly string[]): Objection {
  const suggestion = nearest(name, names);
  return { path, message: `${what} is not declared here`, suggestion, isWarning: true };
}

function scopeObjections({ metadata: { namespace }, spec }: Delegation, world: World): Objection[] {
  const platform = objectIn(world, { kind: "Platform", namespace, name: spec.platformRef.name });
  if (platform === undefined) return [];
  return beyond(platform.spec.defaultAllowedScopes, spec.scopes, "spec.scopes", "the Platform's ceiling");
}

function requesterObjections({ metadata, spec }: Delegation, { bindings }: World): Objection[] {
  const binding = bindings.get(metadata.namespace);
  if (binding?.account?.fourEyes !== true || spec.requestedBy !== undefined) return [];
  const message = `is missing, so nobody can approve it in Kubernetes: ${binding.source} requires two people`;
  return [{ path: "spec.requestedBy", message, isWarning: true }];
}
