import type { CustomObjectsApi } from "@kubernetes/client-node";
import { z } from "zod";
import { ApiError } from "../../errors.ts";
import type { ObjectPlace } from "../../input/cluster_fields.ts";
import { isStatus } from "../../kubernetes/cluster_error.ts";

const reference = z.object({ name: z.string() });

const delegation = z.object({
  metadata: z.object({
    uid: z.string(),
    generation: z.int(),
    creationTimestamp: z.iso.datetime(),
    deletionTimestamp: z.string().optional(),
  }),
  spec: z.object({
    platformRef: reference,
    agentRef: reference,
    scopes: z.array(z.string()),
    ttl: z.string().optional(),
    expiresAt: z.string().optional(),
    constraints: z.array(z.unknown()).default([]),
    requestedBy: z.string().optional(),
    revoked: z.boolean().default(false),
  }),
  status: z
    .object({
      approval: z
        .object({
          decision: z.enum(["Approved", "Denied"]),
          approvedScopes: z.array(z.string()).default([]),
          approver: z.object({ username: z.string().min(1).max(253) }),
          observedGeneration: z.int(),
          message: z.string().max(1024).optional(),
        })
        .optional(),
    })
    .default({}),
});

/** A Delegation as its API server has it now, as far as a decision depends on it. */
export type LiveDelegation = z.infer<typeof delegation>;

/** Reads it. Throws `not_found` when there is none, `unavailable` when the cluster did not say. */
export async function readLiveDelegation(
  client: { custom: Pick<CustomObjectsApi, "getNamespacedCustomObject"> },
  { namespace, name }: ObjectPlace,
): Promise<LiveDelegation> {
  const place = { group: "deputize.io", version: "v1alpha1", plural: "delegations", namespace, name };
  try {
    return delegation.parse(await client.custom.getNamespacedCustomObject(place));
  } catch (error) {
    if (isStatus(error, 404)) throw new ApiError("not_found");
    throw clusterSilent();
  }
}

/** The answer while a cluster cannot be asked. */
export function clusterSilent(): ApiError {
  return new ApiError("unavailable", "The cluster could not be asked about the decision", {
    "retry-after": "2",
  });
}
