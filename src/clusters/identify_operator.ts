import { hash, timingSafeEqual } from "node:crypto";
import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { clusterId as clusterIdField } from "../input/cluster_fields.ts";
import type { OperatorCaller } from "../route.ts";
import { createTokenReviews } from "./token_reviews.ts";
import type { TrustedClusters } from "./trusted_clusters.ts";

/**
 * Identifies an operator by its bearer token and the cluster id that it claims. Throws
 * `operator_unauthorized` if the token does not prove that id.
 */
export type IdentifyOperator = (token: string, clusterId: string) => Promise<OperatorCaller>;

type Options = {
  db: Database;
  clock: Clock;
  clusters: TrustedClusters;
  /** A secret of the API and one operator, valid for a single cluster that the settings do not list. */
  sharedToken: string | undefined;
};

/**
 * Returns the function that identifies operators. An operator of a cluster in the settings authenticates with
 * a token of that cluster, which never identifies the operator of another cluster. One further operator may
 * use the shared token.
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
      "OPERATOR_TOKEN is valid for one cluster only, and another cluster has used it: add this cluster to CLUSTERS_FILE",
    );
  };
}

/** Throws `invalid_request` if the string is not a valid cluster id. */
export function checkClusterId(text: string): void {
  if (clusterIdField.safeParse(text).success) return;
  const why = "must be at most 64 letters, digits and hyphens";
  throw new ApiError("invalid_request", `x-deputize-cluster: ${why}`);
}

/** Returns a constant-time comparison of tokens with a secret. Without a secret, every token fails. */
export function createSharedToken(secret: string | undefined): (token: string) => boolean {
  if (secret === undefined) return () => false;
  const expected = digest(secret);
  return (token) => timingSafeEqual(digest(token), expected);
}

function digest(text: string): Buffer {
  return hash("sha256", text, "buffer");
}

/**
 * Returns the cluster that first used the shared token, or records this cluster if there is none. All
 * replicas use the same record.
 */
async function firstCluster(db: Database, clusterId: string): Promise<string> {
  await db("operator_token_cluster").insert({ cluster_id: clusterId }).onConflict("single").ignore();
  const row = await db("operator_token_cluster").first("cluster_id");
  if (row === undefined) throw new Error("The cluster of the operator's token was not written");
  return row.cluster_id;
}

/** Returns whether an object belongs to the caller's cluster. */
export function isOwnObject({ clusterId }: OperatorCaller, id: string): boolean {
  return id.startsWith(`${clusterId}.`) && id.length > clusterId.length + 1;
}

/** Throws `not_found` unless all objects belong to the caller's cluster. */
export function requireOwnObject(caller: OperatorCaller, ...ids: string[]): void {
  if (!ids.every((id) => isOwnObject(caller, id))) throw new ApiError("not_found");
}

/** Returns the cluster id contained in an external id. */
export function clusterOf(id: string): string {
  return id.slice(0, id.indexOf("."));
}
