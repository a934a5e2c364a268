import { RECORDS_NAME } from "../operator/cluster/sweep_records.ts";
import { LEASE_NAME } from "../operator/operator_metrics.ts";
import type { Settings } from "./settings.ts";

/** Verbs that a role needs on a resource. Without a namespace, it needs them in the whole cluster. */
export type Rights = {
  group: string;
  resource: string;
  subresource?: string;
  verbs: readonly string[];
  name?: string;
  namespace?: string;
};

const KINDS = ["platforms", "agents", "delegations"];

/** Returns the rights of the operator in a cluster, as in `charts/deputize/templates/rbac/_rules.tpl`. */
export function operatorRights(
  {
    WATCH_NAMESPACES,
    NAMESPACE_SELECTOR,
    ENDED_TTL,
    CLUSTER_ID,
  }: Pick<Settings, "WATCH_NAMESPACES" | "NAMESPACE_SELECTOR" | "ENDED_TTL" | "CLUSTER_ID">,
  home: string,
): Rights[] {
  const kinds = KINDS.flatMap((resource): Rights[] => [
    { group: "deputize.io", resource, verbs: ["get", "list", "watch", "patch"] },
    { group: "deputize.io", resource, subresource: "status", verbs: ["patch"] },
  ]);
  const everywhere: Rights[] = [
    ...kinds,
    ...(ENDED_TTL === undefined
      ? []
      : [{ group: "deputize.io", resource: "delegations", verbs: ["delete"] }]),
    { group: "", resource: "secrets", verbs: ["get", "list", "watch", "create", "patch", "delete"] },
    { group: "", resource: "events", verbs: ["create"] },
    {
      ...{ group: "", resource: "namespaces" },
      verbs: NAMESPACE_SELECTOR === undefined ? ["get"] : ["get", "list", "watch"],
    },
  ];
  const leases = { group: "coordination.k8s.io", resource: "leases", namespace: home };
  const maps = { group: "", resource: "configmaps", namespace: home };
  return [
    ...(WATCH_NAMESPACES === undefined
      ? everywhere
      : WATCH_NAMESPACES.flatMap((namespace) => everywhere.map((rights) => ({ ...rights, namespace })))),
    { ...leases, verbs: ["create"] },
    { ...leases, name: LEASE_NAME, verbs: ["get", "patch"] },
    { ...maps, verbs: ["get", "list", "watch", "create"] },
    { ...maps, name: RECORDS_NAME, verbs: ["patch"] },
    { group: "", resource: "events", namespace: home, verbs: ["create"] },
    ...(CLUSTER_ID === undefined && WATCH_NAMESPACES !== undefined
      ? [{ group: "", resource: "namespaces", name: "kube-system", verbs: ["get"] }]
      : []),
  ];
}

/** The rights of the API in a cluster whose operators it serves, other than reading Delegations. */
export const apiRights: readonly Rights[] = [
  { group: "authentication.k8s.io", resource: "tokenreviews", verbs: ["create"] },
];

/** Returns a right as a sentence's part, such as `patch platforms/status in shop`. */
export function textOf({ resource, subresource, name, namespace }: Rights, verb: string): string {
  const what = subresource === undefined ? resource : `${resource}/${subresource}`;
  const named = name === undefined ? "" : ` ${name}`;
  return `${verb} ${what}${named}${namespace === undefined ? " in all namespaces" : ` in ${namespace}`}`;
}
