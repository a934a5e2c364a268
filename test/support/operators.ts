import {
  checkClusterId,
  createSharedToken,
  type IdentifyOperator,
} from "../../src/clusters/identify_operator.ts";
import { ApiError } from "../../src/errors.ts";

/** Identifies every cluster's operator by one token. Other tests cover how operators really authenticate. */
export function anyClusterWith(token: string): IdentifyOperator {
  const isShared = createSharedToken(token);
  return async (presented, clusterId) => {
    if (!isShared(presented)) throw new ApiError("operator_unauthorized");
    checkClusterId(clusterId);
    return { clusterId };
  };
}
