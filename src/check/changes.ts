import { isDeepStrictEqual } from "node:util";
import { type AcceptedPrincipal, type Delegation, keyText, type Platform } from "../operator/kinds.ts";
import type { Binding, BoundAccount } from "../operator/namespace_bindings.ts";
import { approverObstacle } from "../operator/reconcile/delegation_rules.ts";
import { coversScopes } from "../protocol/documents/scopes.ts";
import type { Spot } from "./entries.ts";
import { type Declared, objectIn, type World } from "./world.ts";

/**
 * One effect of changed manifests on authority. `spot` is the place in the new files or, with `isRemoval`, in
 * the former ones.
 */
export type Change = {
  object: string;
  spot: Spot;
  isRemoval: boolean;
  effect: string;
  /** Scopes that somebody gets, at most. */
  lends: readonly string[];
  /** The people of whom one must agree before the effect, or `null` if nobody must agree. */
  agree: string | null;
};

type Effect = Pick<Change, "effect"> & Partial<Pick<Change, "lends" | "agree">>;
type Versions<T> = { before: T | undefined; after: T | undefined };

/** Returns what the change from `former` to `world` would lend, permit or end, and who must agree. */
export function changesBetween(former: World, world: World): Change[] {
  const ids = new Set([...former.declared.keys(), ...world.declared.keys()]);
  const objects = [...ids].flatMap((id) => {
    const before = former.declared.get(id);
    const after = world.declared.get(id);
    const spot = after?.spot ?? before?.spot;
    if (spot === undefined || (after === undefined && mayRemain(id, world))) return [];
    const where = { object: id, spot, isRemoval: after === undefined };
    return objectEffects({ before, after }, world, former).map((effect) => change(where, effect));
  });
  const namespaces = new Set([...former.bindings.keys(), ...world.bindings.keys()]);
  const bindings = [...namespaces].flatMap((namespace) => {
    const before = former.bindings.get(namespace);
    const after = world.bindings.get(namespace);
    const spot = after?.spot ?? before?.spot;
    if (spot === undefined || (after === undefined && world.unusable.length > 0)) return [];
    const where = { object: `Namespace/${namespace}`, spot, isRemoval: after === undefined };
    const versions = { before: before?.account, after: after?.account };
    return bindingEffects(versions).map((effect) => change(where, effect));
  });
  return [...objects, ...bindings];
}

function change(where: Pick<Change, "object" | "spot" | "isRemoval">, effect: Effect): Change {
  return { ...where, lends: [], agree: null, ...effect };
}

/** Returns whether an object may still be declared: by something that is refused or cannot be read. */
function mayRemain(id: string, { refused, repeated, unusable }: World): boolean {
  return unusable.length > 0 || [...refused, ...repeated].some(({ key }) => keyText(key) === id);
}

function objectEffects({ before, after }: Versions<Declared>, world: World, former: World): Effect[] {
  const [old, now] = [before?.object, after?.object];
  const { kind } = now ?? old ?? {};
  if (kind === "Delegation") {
    return delegationEffects({ before: delegation(old), after: delegation(now) }, world, former);
  }
  if (kind === "Platform") {
    return platformEffects({ before: platform(old), after: platform(now) }, world);
  }
  return agentEffects({ before: old, after: now }, world);
}

function delegation(object: Declared["object"] | undefined): Delegation | undefined {
  return object?.kind === "Delegation" ? object : undefined;
}

function platform(object: Declared["object"] | undefined): Platform | undefined {
  return object?.kind === "Platform" ? object : undefined;
}

function delegationEffects({ before, after }: Versions<Delegation>, world: World, former: World): Effect[] {
  const wasInForce = before !== undefined && before.spec.revoked !== true;
  if (after === undefined || after.spec.revoked === true) {
    if (!wasInForce) return [];
    const how = after === undefined ? "revokes" : "revokes for good";
    return [
      { effect: `${how} the authority of ${holder(before, former)}: ${before.spec.scopes.join(", ")}` },
    ];
  }
  const isPaused = after.spec.suspend === true;
  const wasAsked = wasInForce && before.spec.suspend !== true;
  if (isPaused) {
    return wasAsked ? [{ effect: "pauses its request; authority that was granted remains" }] : [];
  }
  return wasAsked ? [] : [requestEffect(after, world)];
}

function requestEffect(object: Delegation, world: World): Effect {
  const { scopes, ttl, expiresAt, constraints = [] } = object.spec;
  const until = ttl === undefined ? `until ${expiresAt ?? "revoked"}` : `for ${ttl} after the approval`;
  const types = [...new Set(constraints.map(({ type }) => type))].join(", ");
  const limits = types === "" ? "" : `, limited by ${types}`;
  return {
    effect: `asks for ${scopes.join(", ")} for ${holder(object, world)}, ${until}${limits}`,
    lends: scopes,
    agree: approvalOf(object, world.bindings.get(object.metadata.namespace)),
  };
}

/** Describes the agent and the platform of a delegation, with the names that people see. */
function holder({ metadata: { namespace }, spec }: Delegation, world: World): string {
  const agent = objectIn(world, { kind: "Agent", namespace, name: spec.agentRef.name });
  const target = objectIn(world, { kind: "Platform", namespace, name: spec.platformRef.name });
  const type = agent === undefined ? "" : ` (${agent.spec.agentType})`;
  const title = target === undefined ? "" : ` (${target.spec.displayName})`;
  return `Agent ${spec.agentRef.name}${type} on Platform ${spec.platformRef.name}${title}`;
}

function platformEffects({ before, after }: Versions<Platform>, world: World): Effect[] {
  if (after === undefined) {
    if (before?.spec.deletionPolicy !== "Delete") return [];
    return [{ effect: "removes the platform with its keys and Secret, so its agents' authority ends" }];
  }
  const account = world.bindings.get(after.metadata.namespace);
  const ceiling = after.spec.defaultAllowedScopes;
  const lost = before === undefined ? [] : coversScopes(ceiling, before.spec.defaultAllowedScopes);
  const owner = ownerOf(after.metadata.namespace, account);
  return [
    ...adoption(before?.spec.adopt, after.spec.adopt, owner),
    ...(before === undefined && after.spec.adopt === undefined
      ? [
          {
            effect: `registers an application whose agents can get at most ${ceiling.join(", ")}`,
            agree: owner,
          },
        ]
      : []),
    ...(lost.length === 0 ? [] : [{ effect: `denies its agents from now on: ${lost.join(", ")}` }]),
    ...principalEffects(before?.spec.acceptedPrincipals ?? [], after.spec.acceptedPrincipals ?? []),
  ];
}

function adoption(before: string | undefined, after: string | undefined, owner: string): Effect[] {
  if (after === undefined || after === before) return [];
  return [{ effect: `takes over ${after}, which exists in the account`, agree: owner }];
}

/** Nobody agrees to accepted principals: whoever may write the Platform decides alone. */
function principalEffects(
  before: readonly AcceptedPrincipal[],
  after: readonly AcceptedPrincipal[],
): Effect[] {
  const known = new Map(before.map((principal) => [principal.humanID, principal]));
  const wanted = new Map(after.map((principal) => [principal.humanID, principal]));
  const accepted = after.flatMap((principal): Effect[] => {
    const former = known.get(principal.humanID);
    if (isDeepStrictEqual(former, principal)) return [];
    const { humanID, scopes, acceptedUntil } = principal;
    const end = acceptedUntil === undefined ? "until withdrawn" : `until ${acceptedUntil}`;
    const effect = `accepts authority that root identity ${humanID} lends, ${end}: ${scopes.join(", ")}`;
    return [{ effect, lends: coversScopes(former?.scopes ?? [], scopes) }];
  });
  const ended = before.filter(({ humanID }) => !wanted.has(humanID));
  return [
    ...accepted,
    ...ended.map(({ humanID }) => ({ effect: `no longer accepts authority of root identity ${humanID}` })),
  ];
}

function agentEffects({ before, after }: Versions<Declared["object"]>, world: World): Effect[] {
  if (after === undefined) {
    const disables = before?.kind === "Agent" && before.spec.deletionPolicy === "Delete";
    return disables ? [{ effect: "disables the agent's key, so its authority ends" }] : [];
  }
  if (after.kind !== "Agent") return [];
  const { namespace } = after.metadata;
  const former = before?.kind === "Agent" ? before.spec.adopt : undefined;
  return adoption(former, after.spec.adopt, ownerOf(namespace, world.bindings.get(namespace)));
}

function bindingEffects({ before, after }: Versions<BoundAccount>): Effect[] {
  if (after === undefined) {
    return before === undefined ? [] : [{ effect: `no longer acts for the account ${before.accountEmail}` }];
  }
  if (before?.accountEmail !== after.accountEmail) {
    const ceiling = after.ceiling === undefined ? "any scopes" : `at most ${after.ceiling.join(", ")}`;
    const effect = `acts for the account ${after.accountEmail}, with ${ceiling}`;
    return [{ effect, lends: after.ceiling ?? [], agree: after.accountEmail }];
  }
  const changed = (name: "approvers" | "fourEyes" | "ceiling", show: (value: BoundAccount) => string) =>
    isDeepStrictEqual(before[name], after[name])
      ? []
      : [{ effect: `${show(after)}; before, ${show(before)}` }];
  return [
    ...changed("ceiling", ({ ceiling }) => `its Platforms may allow ${ceiling?.join(", ") ?? "any scopes"}`),
    ...changed("approvers", ({ approvers }) => `${approvers?.join(", ") ?? "every linked user"} may approve`),
    ...changed(
      "fourEyes",
      ({ fourEyes }) => `${fourEyes === true ? "two people" : "one person"} must decide`,
    ),
  ];
}

/** Returns the address of the account's owner, or a description if the files do not bind the namespace. */
function ownerOf(namespace: string, binding: Binding | undefined): string {
  return binding?.account?.accountEmail ?? `the owner of the account of namespace ${namespace}`;
}

/** Describes the people of whom one must approve a Delegation. */
function approvalOf({ metadata, spec }: Delegation, binding: Binding | undefined): string {
  const owner = `${ownerOf(metadata.namespace, binding)} in the console`;
  const { requestedBy } = spec;
  const mayApprove = (username: string) =>
    username !== requestedBy && approverObstacle({ spec }, { approver: { username } }, binding) === undefined;
  const approvers = binding?.account?.approvers;
  if (approvers !== undefined) {
    const able = approvers.filter(mayApprove);
    return able.length === 0 ? owner : `${owner}, or in Kubernetes ${able.join(" or ")}`;
  }
  if (binding?.account?.fourEyes === true && requestedBy === undefined) return owner;
  const except = requestedBy === undefined ? "" : ` except ${requestedBy}, who asks`;
  return `${owner}, or in Kubernetes a user whom the owner has linked${except}`;
}
