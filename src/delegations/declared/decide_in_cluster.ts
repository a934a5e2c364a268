import { isDeepStrictEqual } from "node:util";
import type { CustomObjectsApi } from "@kubernetes/client-node";
import { z } from "zod";
import type { Clock } from "../../clock.ts";
import { findApprover, findLinkedMember, isPerson } from "../../clusters/approvers.ts";
import type { TrustedCluster, TrustedClusters } from "../../clusters/trusted_clusters.ts";
import type { Database, Transaction } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import type { ObjectPlace } from "../../input/cluster_fields.ts";
import { durationSeconds } from "../../input/durations.ts";
import { isStatus } from "../../kubernetes/cluster_error.ts";
import { checkPolicies, type PoliciesVerdict } from "../../kubernetes/policies.ts";
import { findOwner } from "../../platforms/account_owner.ts";
import { checkWithinBinding, requireBinding } from "../../platforms/declared/bound_owner.ts";
import type { SecretBox } from "../../secret_box.ts";
import { approveRequest, type SignDeps } from "../requests/approve_request.ts";
import { type ClusterDecider, denyRequest } from "../requests/decide_request.ts";
import { requireDeclaredDelegation } from "./declared_delegation.ts";
import type { DeclaredDelegation } from "./declared_state.ts";

/** Dependencies of `decideInCluster`. `clusters` contains the clusters whose API servers can be read. */
export type DecideDeps = SignDeps & {
  db: Database;
  secretBox: SecretBox;
  clock: Clock;
  clusters: TrustedClusters;
};

type Question = { externalId: string; clusterId: string; object: ObjectPlace };
type Approval = NonNullable<LiveDelegation["status"]["approval"]>;

/**
 * Applies a decision that a person made in a cluster to a declared request. Trusts nothing that the operator
 * reports: reads the Delegation, the decision in its status, and the policies that guarded the decision from
 * the API server. A decided request stays unchanged, so the call may be repeated at any time.
 *
 * Throws `not_found`, `not_available` for a cluster that cannot be read, and `external_conflict` if the
 * object differs from the filed request. Also throws `approval_policy_missing`, `approver_not_linked`,
 * `four_eyes_required`, `namespace_not_bound`, `unavailable`, and what {@link approveRequest} throws.
 */
export async function decideInCluster(deps: DecideDeps, question: Question): Promise<DeclaredDelegation> {
  const { externalId, clusterId, object } = question;
  const filed = await requireDeclaredDelegation(deps.db, externalId);
  if (filed.status !== "pending") return filed;
  const cluster = deps.clusters.get(clusterId);
  if (cluster === undefined) {
    throw new ApiError("not_available", "Decisions count only in clusters that CLUSTERS_FILE lists");
  }
  const live = await readLiveDelegation(cluster.client, object);
  if (`${clusterId}.${live.metadata.uid}` !== externalId) throw new ApiError("not_found");
  await checkUnchanged(deps.db, filed, live, object);
  const { approval } = live.status;
  if (approval === undefined) return filed;
  const decider = await deciderOf(deps, { cluster, question, filed, live, approval });
  await decide(deps, { filed, approval, decider });
  return requireDeclaredDelegation(deps.db, externalId);
}

/** Checks that the person decided on exactly the filed request. Throws `external_conflict` otherwise. */
async function checkUnchanged(
  db: Database,
  filed: DeclaredDelegation,
  { metadata, spec }: LiveDelegation,
  { namespace }: ObjectPlace,
): Promise<void> {
  const agent = await db("agents as a")
    .join("connections as c", "c.connection_id", "a.connection_id")
    .join("platforms as p", "p.platform_id", "c.platform_id")
    .where({ "a.agent_id": filed.agent_id, "a.connection_id": filed.connection_id })
    .first<{ object_name: string; platform: string; object_namespace: string } | undefined>(
      "a.object_name",
      "p.object_name as platform",
      "p.object_namespace",
    );
  const end = filed.requested_expires_at?.getTime();
  const isSame =
    agent?.object_name === spec.agentRef.name &&
    agent.platform === spec.platformRef.name &&
    agent.object_namespace === namespace &&
    new Set(spec.scopes).symmetricDifference(new Set(filed.requested_scope)).size === 0 &&
    (spec.ttl === undefined ? null : durationSeconds(spec.ttl)) === filed.requested_expires_in &&
    (spec.expiresAt === undefined ? undefined : Math.floor(Date.parse(spec.expiresAt) / 1000) * 1000) ===
      end &&
    isDeepStrictEqual(filed.constraints, spec.constraints);
  const hasEnded = spec.revoked || metadata.deletionTimestamp !== undefined;
  if (!isSame || hasEnded) {
    throw new ApiError("external_conflict", "The Delegation differs from the request that was filed for it");
  }
}

type Evidence = {
  cluster: TrustedCluster;
  question: Question;
  filed: DeclaredDelegation;
  live: LiveDelegation;
  approval: Approval;
};

/** Returns the person who decided. Throws if that person's decision does not count. */
async function deciderOf({ db }: DecideDeps, evidence: Evidence): Promise<ClusterDecider> {
  const { cluster, question, live, approval } = evidence;
  const policies = await policiesOf(cluster);
  if (policies.fault !== undefined) throw new ApiError("approval_policy_missing", policies.fault);
  if (Date.parse(live.metadata.creationTimestamp) < policies.since.getTime()) {
    throw new ApiError(
      "approval_policy_missing",
      `The Delegation was created before ${policies.since.toISOString()}, since when the admission policies are enforced; create it again`,
    );
  }
  if (approval.observedGeneration > live.metadata.generation) throw new ApiError("external_conflict");
  const memberId = await db.transaction((tx) => checkOwnersConsent(tx, evidence));
  return {
    clusterId: question.clusterId,
    username: approval.approver.username,
    memberId,
    policies: policies.hash,
    async check(tx) {
      if ((await checkOwnersConsent(tx, evidence)) !== memberId) throw notLinked(evidence);
    },
  };
}

/**
 * Checks that the account permits this decision, and returns the member whose decision it is. The permission
 * cannot change before the transaction ends.
 */
async function checkOwnersConsent(tx: Transaction, evidence: Evidence): Promise<string> {
  const { question, filed, live, approval } = evidence;
  const { clusterId, object } = question;
  const { username } = approval.approver;
  const memberId = isPerson(username)
    ? await findApprover(tx, filed.account_id, { clusterId, username })
    : undefined;
  if (memberId === undefined) throw notLinked(evidence);
  const place = { clusterId, namespace: object.namespace };
  const binding = await requireBinding(tx, filed.account_id, place);
  const { requestedBy } = live.spec;
  const requester =
    requestedBy && (await findLinkedMember(tx, filed.account_id, { clusterId, username: requestedBy }));
  const isSamePerson = requestedBy === username || requester === memberId;
  if (isSamePerson || (binding.four_eyes && requestedBy === undefined)) {
    throw new ApiError("four_eyes_required");
  }
  checkWithinBinding(binding, approval.approvedScopes);
  return memberId;
}

function notLinked({ question: { clusterId }, approval: { approver } }: Evidence): ApiError {
  return new ApiError(
    "approver_not_linked",
    `${approver.username} of the cluster ${clusterId} is not linked to a member who may approve`,
  );
}

async function policiesOf({ client, operator }: TrustedCluster): Promise<PoliciesVerdict> {
  try {
    return await checkPolicies(client, { operator });
  } catch {
    throw clusterUnavailable();
  }
}

/** Applies the decision. If the request was decided in the meantime, leaves it unchanged. */
async function decide(
  deps: DecideDeps,
  { filed, approval, decider }: { filed: DeclaredDelegation; approval: Approval; decider: ClusterDecider },
): Promise<void> {
  const { account_id, request_id } = filed;
  try {
    if (approval.decision === "Denied") {
      await denyRequest(deps, account_id, request_id, { reason: approval.message ?? null, decider });
    } else {
      await approveRequest(deps, await findOwner(deps.db, account_id), request_id, {
        approvedScope: approval.approvedScopes,
        expiry: { at: null, inSeconds: null },
        constraints: [],
        once: false,
        channel: "kubernetes",
        decider,
      });
    }
  } catch (error) {
    if (!(error instanceof ApiError && error.code === "request_not_pending")) throw error;
  }
}

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

type LiveDelegation = z.infer<typeof delegation>;

/** Reads a Delegation. Throws `not_found` if it is unknown, `unavailable` if the cluster does not answer. */
async function readLiveDelegation(
  client: { custom: Pick<CustomObjectsApi, "getNamespacedCustomObject"> },
  { namespace, name }: ObjectPlace,
): Promise<LiveDelegation> {
  const place = { group: "deputize.io", version: "v1alpha1", plural: "delegations", namespace, name };
  try {
    return delegation.parse(await client.custom.getNamespacedCustomObject(place));
  } catch (error) {
    if (isStatus(error, 404)) throw new ApiError("not_found");
    throw clusterUnavailable();
  }
}

function clusterUnavailable(): ApiError {
  return new ApiError(
    "unavailable",
    "The cluster did not answer, so the decision could not be read; try again",
    {
      "retry-after": "2",
    },
  );
}
