/** A rule of a Role or ClusterRole. */
export type Rule = { apiGroups?: string[]; resources?: string[]; resourceNames?: string[]; verbs: string[] };
/** A Role or a ClusterRole. */
export type Role = { metadata: { name: string; namespace?: string }; rules?: Rule[] | null };
/** The user, group or service account that a binding grants a role. */
export type Subject = { kind: string; name: string; namespace?: string };
/** A RoleBinding or a ClusterRoleBinding. */
export type RoleBinding = {
  metadata: { name: string; namespace?: string };
  roleRef: { kind: string; name: string };
  subjects?: Subject[] | null;
};

/** The roles and bindings of a namespace and of the cluster. */
export type Rbac = {
  roles: readonly Role[];
  clusterRoles: readonly Role[];
  roleBindings: readonly RoleBinding[];
  clusterRoleBindings: readonly RoleBinding[];
};

/** The access to check: verbs on one object of our API group. */
export type Wanted = { resource: string; name: string; verbs: readonly string[] };

const GROUP = "deputize.io";

/** Decides by the rules of the API server. */
function allows(
  { apiGroups = [], resources = [], resourceNames = [], verbs }: Rule,
  wanted: Wanted,
  verb: string,
) {
  const [, subresource] = wanted.resource.split("/");
  const names = ["*", wanted.resource, ...(subresource === undefined ? [] : [`*/${subresource}`])];
  return (
    (verbs.includes("*") || verbs.includes(verb)) &&
    (apiGroups.includes("*") || apiGroups.includes(GROUP)) &&
    resources.some((resource) => names.includes(resource)) &&
    (resourceNames.length === 0 || resourceNames.includes(wanted.name))
  );
}

/** A subject, and the bindings that give it access. */
export type Allowed = { subject: Subject; bindings: string[] };

/** Returns the subjects that may use every wanted verb, and the bindings that grant any of the verbs. */
export function whoMay(rbac: Rbac, wanted: Wanted): Allowed[] {
  const found = new Map<string, Allowed & { verbs: Set<string> }>();
  for (const { binding, rules, place } of boundRules(rbac)) {
    const verbs = wanted.verbs.filter((verb) => rules.some((rule) => allows(rule, wanted, verb)));
    if (verbs.length === 0) continue;
    for (const subject of binding.subjects ?? []) {
      const known = found.get(subjectText(subject)) ?? { subject, bindings: [], verbs: new Set<string>() };
      known.bindings.push(place);
      for (const verb of verbs) known.verbs.add(verb);
      found.set(subjectText(subject), known);
    }
  }
  return [...found.values()]
    .filter(({ verbs }) => verbs.size === wanted.verbs.length)
    .map(({ subject, bindings }) => ({ subject, bindings }));
}

function* boundRules({ roles, clusterRoles, roleBindings, clusterRoleBindings }: Rbac) {
  const rulesOf = ({ roleRef }: RoleBinding): Rule[] => {
    const known = roleRef.kind === "ClusterRole" ? clusterRoles : roles;
    return known.find(({ metadata }) => metadata.name === roleRef.name)?.rules ?? [];
  };
  for (const binding of roleBindings) {
    yield { binding, rules: rulesOf(binding), place: `rolebinding/${binding.metadata.name}` };
  }
  for (const binding of clusterRoleBindings) {
    yield { binding, rules: rulesOf(binding), place: `clusterrolebinding/${binding.metadata.name}` };
  }
}

/** Formats a subject: `User jane`, `ServiceAccount ns/name`. */
export function subjectText({ kind, name, namespace }: Subject): string {
  return namespace === undefined || kind !== "ServiceAccount"
    ? `${kind} ${name}`
    : `${kind} ${namespace}/${name}`;
}
