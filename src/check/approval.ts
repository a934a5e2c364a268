import type { Delegation } from "../operator/kinds.ts";
import type { Binding } from "../operator/namespace_bindings.ts";
import { approverObstacle } from "../operator/reconcile/delegation_rules.ts";

/** Returns the address of the account's owner, or a description if the files do not bind the namespace. */
export function ownerOf(namespace: string, binding: Binding | undefined): string {
  return binding?.account?.accountEmail ?? `the owner of the account of namespace ${namespace}`;
}

/** Describes the people of whom one must approve a Delegation. */
export function approvalOf({ metadata, spec }: Delegation, binding: Binding | undefined): string {
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
