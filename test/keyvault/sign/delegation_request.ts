import { randomUUID } from "node:crypto";
import type { CreatedKey } from "../../../keyvault/keys/create.ts";
import type { Approval, DelegationRequest } from "../../../keyvault/sign/delegation.ts";

/** Fields of a request that a test replaces. */
export type Change = {
  tenant?: string;
  certificate?: Partial<DelegationRequest>;
  approval?: Partial<Approval>;
};

/**
 * Returns a delegation request of the API with its approval. It delegates `data:read` from a root key to an
 * agent for one minute from `now` (Unix seconds).
 */
export function delegationRequest(
  root: { key_id: string },
  agent: CreatedKey,
  now: number,
  change: Change = {},
) {
  return {
    tenant: change.tenant ?? "acc-1",
    certificate: {
      cert_id: `cert-${randomUUID()}`,
      version: 1,
      issuer_id: root.key_id,
      ...subject(agent),
      scope: ["data:read"],
      constraints: [],
      issued_at: now,
      expires_at: now + 60,
      ...change.certificate,
    },
    approval: { ceiling: ["data:read"], request_id: "req-1", approved_by: "user-1", ...change.approval },
  };
}

/** Returns the certificate fields that name its subject. */
export function subject({ key_id, public_key }: Pick<CreatedKey, "key_id" | "public_key">) {
  return { subject_id: key_id, subject_pub_key: public_key };
}
