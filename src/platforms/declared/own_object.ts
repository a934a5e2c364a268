import { ApiError } from "../../errors.ts";
import type { OperatorCaller } from "../../route.ts";

/** Whether an object is one of the caller's cluster. */
export function isOwnObject({ clusterId }: OperatorCaller, id: string): boolean {
  return id.startsWith(`${clusterId}.`) && id.length > clusterId.length + 1;
}

/** Throws `not_found` for an object of another cluster: an operator sees its own only. */
export function requireOwnObject(caller: OperatorCaller, ...ids: string[]): void {
  if (!ids.every((id) => isOwnObject(caller, id))) throw new ApiError("not_found");
}

/** The cluster of an object. */
export function clusterOf(id: string): string {
  return id.slice(0, id.indexOf("."));
}
