import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { ApiError } from "../../errors.ts";
import type { ObjectPlace } from "../../input/cluster_fields.ts";
import type { DeclaredFields } from "../../input/declared_fields.ts";
import { findOwner } from "../../platforms/account_owner.ts";
import { bindingCheck } from "../../platforms/declared/bound_owner.ts";
import { findDeclaredAgent } from "../../platforms/declared/declared_agent.ts";
import { requireDeclaredPlatform, requireSamePlace } from "../../platforms/declared/declared_platform.ts";
import { lockConnection } from "../../platforms/platform_record.ts";
import type { ActionLimits } from "../../rates/action_limits.ts";
import type { SecretBox } from "../../secret_box.ts";
import { revokeCertificate } from "../certificates/revoke_certificate.ts";
import type { RequestedExpiry } from "../requested_end.ts";
import { decideRequest } from "../requests/decide_request.ts";
import { requestDelegation } from "../requests/request_delegation.ts";
import { type DeclaredDelegation, findDeclaredDelegations } from "./declared_state.ts";

/** A delegation as a Kubernetes object declares it. */
export type DelegationDeclaration = {
  externalId: string;
  clusterId: string;
  object: ObjectPlace;
  platformExternalId: string;
  agentExternalId: string;
  declared: DeclaredFields;
  scope: readonly string[];
  expiry: RequestedExpiry;
  constraints: readonly unknown[];
  purpose: string | null;
};

type Deps = { db: Database; secretBox: SecretBox; clock: Clock };
type FileDeps = Deps & { actionLimits: ActionLimits };

/**
 * Files the request that an object declares, once, under the same rules as requests by people. The call may
 * be repeated at any time. Throws what {@link requestDelegation} throws, and `namespace_not_bound` if the
 * account no longer accepts the namespace, and `action_limited`. Throws `external_conflict` if the object is
 * not in its platform's namespace, or if it declared a different request before.
 */
export async function putDelegation(
  deps: FileDeps,
  declaration: DelegationDeclaration,
): Promise<DeclaredDelegation> {
  const known = await findDeclaredDelegation(deps.db, declaration.externalId);
  if (known === undefined) await fileRequest(deps, declaration);
  const filed = await requireDeclaredDelegation(deps.db, declaration.externalId);
  if (!(await isSame(deps.db, filed, declaration))) throw new ApiError("external_conflict");
  return filed;
}

async function fileRequest(deps: FileDeps, declaration: DelegationDeclaration): Promise<void> {
  const { scope, expiry, constraints, purpose, externalId } = declaration;
  const { clusterId, object, declared } = declaration;
  const platform = await requireDeclaredPlatform(deps.db, declaration.platformExternalId);
  requireSamePlace(platform, object);
  const place = { clusterId, namespace: object.namespace };
  const check = bindingCheck(platform.account_id, place, scope);
  await deps.db.transaction(check);
  const agent = await findDeclaredAgent(deps.db, declaration.agentExternalId);
  if (agent === undefined) throw new ApiError("not_found");
  const owner = await findOwner(deps.db, platform.account_id);
  const { connection_id: connectionId } = platform;
  const agentId = agent.agent_id;
  const filed = { externalId, objectName: object.name, declared };
  const newRequest = { connectionId, agentId, scope, expiry, constraints, purpose, ...filed, check };
  const { within } = deps.actionLimits;
  await within("request_in_namespace", [owner.accountId, clusterId, object.namespace], () =>
    within("request_delegation", [connectionId, object.name], () =>
      requestDelegation(deps, owner, newRequest),
    ),
  );
}

async function isSame(
  db: Database,
  filed: DeclaredDelegation,
  { agentExternalId, scope, expiry, constraints }: DelegationDeclaration,
): Promise<boolean> {
  const agent = await findDeclaredAgent(db, agentExternalId);
  const end = filed.requested_expires_at === null ? null : filed.requested_expires_at.getTime() / 1000;
  return (
    agent?.agent_id === filed.agent_id &&
    new Set(scope).symmetricDifference(new Set(filed.requested_scope)).size === 0 &&
    end === expiry.at &&
    filed.requested_expires_in === expiry.inSeconds &&
    isDeepStrictEqual(filed.constraints, constraints)
  );
}

/**
 * Withdraws the pending request that an object declares, or revokes the certificate. With `isGone`, notes
 * that the object is deleted, so that an undecided request is not kept for it. A repeated call changes
 * nothing. Throws `not_found`.
 */
export async function endDelegation(
  deps: Deps,
  externalId: string,
  { reason, isGone }: { reason: string | null; isGone: boolean },
): Promise<DeclaredDelegation> {
  const before = await requireDeclaredDelegation(deps.db, externalId);
  if (before.status === "pending") await withdraw(deps, before, reason);
  const { cert_id, account_id } = await requireDeclaredDelegation(deps.db, externalId);
  if (cert_id !== null) await revokeCertificate(deps, account_id, cert_id, { reason, revokedBy: null });
  if (isGone) {
    await deps.db.raw(
      `insert into gone_requests select request_id from delegation_requests
       where external_id = ? and status in ('expired', 'withdrawn') on conflict do nothing`,
      [externalId],
    );
  }
  return requireDeclaredDelegation(deps.db, externalId);
}

/** Withdraws a pending request. If the request was decided in the meantime, leaves it unchanged. */
async function withdraw(
  { db, clock }: Deps,
  { request_id, connection_id }: DeclaredDelegation,
  reason: string | null,
): Promise<void> {
  await db
    .transaction(async (tx) => {
      await lockConnection(tx, connection_id);
      const now = clock.now();
      await decideRequest(tx, request_id, { status: "withdrawn", by: null, reason, now });
    })
    .catch((error: unknown) => {
      if (!(error instanceof ApiError && error.code === "request_not_pending")) throw error;
    });
}

async function findDeclaredDelegation(
  db: Database,
  externalId: string,
): Promise<DeclaredDelegation | undefined> {
  const [declared] = await findDeclaredDelegations(db, [externalId]);
  return declared;
}

/** Returns the request that an object has filed. Throws `not_found`. */
export async function requireDeclaredDelegation(
  db: Database,
  externalId: string,
): Promise<DeclaredDelegation> {
  const declared = await findDeclaredDelegation(db, externalId);
  if (declared === undefined) throw new ApiError("not_found");
  return declared;
}
