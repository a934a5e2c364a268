import { hash, timingSafeEqual } from "node:crypto";
import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { clusterId as clusterIdField } from "../input/cluster_fields.ts";
import type { OperatorCaller } from "../route.ts";
import { createTokenReviews } from "./token_reviews.ts";
import type { TrustedClusters } from "./trusted_clusters.ts";

/**
 * Proves an operator by its bearer token and the cluster that it says it is of. Throws
 * `operator_unauthorized`.
 */
export type IdentifyOperator = (token: string, clusterId: string) => Promise<OperatorCaller>;

type Options = {
  db: Database;
  clock: Clock;
  clusters: TrustedClusters;
  /** A secret that both sides were given; it is good for one cluster, which the settings do not name. */
  sharedToken: string | undefined;
};

/**
 * Knows operators of the clusters in the settings by tokens of these clusters, and one more by the shared
 * token. A token of one cluster says nothing about another.
 */
export function createIdentifyOperator({ db, clock, clusters, sharedToken }: Options): IdentifyOperator {
  const reviews = createTokenReviews(clock);
  const isShared = createSharedToken(sharedToken);
  let sharedCluster: string | undefined;

  async function clusterOfSharedToken(clusterId: string): Promise<string> {
    sharedCluster ??= await firstCluster(db, clusterId);
    return sharedCluster;
  }

  return async (token, clusterId) => {
    const cluster = clusters.get(clusterId);
    if (cluster !== undefined) {
      if (await reviews.isOperator(clusterId, cluster, token)) return { clusterId };
      throw new ApiError("operator_unauthorized");
    }
    if (!isShared(token)) throw new ApiError("operator_unauthorized");
    checkClusterId(clusterId);
    if ((await clusterOfSharedToken(clusterId)) === clusterId) return { clusterId };
    throw new ApiError(
      "operator_unauthorized",
      "OPERATOR_TOKEN is good for one cluster and another one has used it: name this one in CLUSTERS_FILE",
    );
  };
}

/** Throws `invalid_request` for the id of a cluster that can be none. */
export function checkClusterId(text: string): void {
  if (clusterIdField.safeParse(text).success) return;
  const why = "must be at most 64 letters, digits and hyphens";
  throw new ApiError("invalid_request", `x-deputize-cluster: ${why}`);
}

/** Compares with a secret in constant time. Without one nothing is equal. */
export function createSharedToken(secret: string | undefined): (token: string) => boolean {
  if (secret === undefined) return () => false;
  const expected = digest(secret);
  return (token) => timingSafeEqual(digest(token), expected);
}

function digest(text: string): Buffer {
  return hash("sha256", text, "buffer");
}

/** The cluster that first used the shared token: this one, when there was none. Replicas agree on it. */
async function firstCluster(db: Database, clusterId: string): Promise<string> {
  await db("operator_token_cluster").insert({ cluster_id: clusterId }).onConflict("single").ignore();
  const row = await db("operator_token_cluster").first("cluster_id");
  if (row === undefined) throw new Error("The cluster of the operator's token was not written");
  return row.cluster_id;
}

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
