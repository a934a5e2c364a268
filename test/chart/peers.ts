import { BlockList } from "node:net";
import { expect } from "vitest";

export type Labels = Record<string, string>;
type Selector = {
  matchLabels?: Labels;
  matchExpressions?: { key: string; operator: string; values: string[] }[];
};
export type Peer = {
  podSelector?: Selector;
  namespaceSelector?: Selector;
  ipBlock?: { cidr: string; except?: string[] };
};
/** A pod, reduced to the properties by which policies select pods. */
export type PeerPod = { labels: Labels; namespace: string };
export type End = PeerPod | { address: string };

/** Returns whether a policy's peer selects `end`. `home` is the namespace of the policy. */
export function isPeer({ podSelector, namespaceSelector, ipBlock }: Peer, end: End, home: string): boolean {
  if ("address" in end) {
    if (ipBlock === undefined || ipBlock.cidr.includes(":")) return false;
    return isIn(end.address, ipBlock.cidr) && !(ipBlock.except ?? []).some((cidr) => isIn(end.address, cidr));
  }
  if (ipBlock !== undefined) return false;
  const isNamespace =
    namespaceSelector === undefined
      ? end.namespace === home
      : matches(namespaceSelector, { "kubernetes.io/metadata.name": end.namespace });
  return isNamespace && matches(podSelector ?? {}, end.labels);
}

export function matches({ matchLabels = {}, matchExpressions = [] }: Selector, labels: Labels): boolean {
  for (const { operator } of matchExpressions) expect(["In", "NotIn"]).toContain(operator);
  return (
    Object.entries(matchLabels).every(([name, value]) => labels[name] === value) &&
    matchExpressions.every(
      ({ key, operator, values }) => values.includes(labels[key] ?? "") === (operator === "In"),
    )
  );
}

function isIn(address: string, cidr: string): boolean {
  const [network = "", bits = ""] = cidr.split("/");
  const list = new BlockList();
  list.addSubnet(network, Number(bits));
  return list.check(address);
}
