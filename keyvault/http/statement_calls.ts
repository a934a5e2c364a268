import { z } from "zod";
import { ROTATION_REASONS } from "../../src/protocol/key_rotation.ts";
import { MAX_CERTS_PER_REVOCATION_LIST } from "../../src/protocol/revocation_list.ts";
import type { SignRotation } from "../sign/rotation.ts";
import type { SequenceSigning } from "../sign/sequences.ts";
import { MAX_LIST_BODY_BYTES, readBody } from "./body.ts";
import type { Call } from "./calls.ts";
import { identifierList, keyIdPattern, tenantName } from "./schemas.ts";

/** The operations behind the calls that sign statements other than delegations and challenges. */
export type StatementOperations = { signRotation: SignRotation; sequences: SequenceSigning };

const MOST_PUSHED = 1_000;
const ORIGIN = /^[a-z0-9][a-z0-9.-]*(\/[A-Za-z0-9._-]+)*$/;

const identifier = z
  .string()
  .min(1)
  .max(128)
  .regex(/^\P{Cc}+$/u);
const seconds = z.int().min(0);
const binding = z.string().regex(/^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/, "base64 of 32 bytes");

const revocationList = z.strictObject({
  tenant: tenantName,
  updated_at: seconds,
  revoked_certs: identifierList(MAX_CERTS_PER_REVOCATION_LIST),
});
const revocationPush = z.strictObject({
  tenant: tenantName,
  seq_no: z.int().min(1),
  entries: identifierList(MOST_PUSHED),
  pushed_at: seconds,
});
const rotation = z.strictObject({
  tenant: tenantName,
  new_id: z.string().regex(keyIdPattern),
  rotated_at: seconds,
  reason: z.enum(ROTATION_REASONS),
});
const receipt = z.strictObject({
  bundle_hash: binding,
  decision: identifier,
  verified_at: seconds,
  verifier_id: identifier,
  prev_hash: binding,
  agent_id: identifier.exactOptional(),
  human_id: identifier.exactOptional(),
  error_reason: identifier.exactOptional(),
  granted_scope: z.array(z.string().min(1).max(256)).min(1).max(128).exactOptional(),
});
const checkpoint = z.strictObject({
  origin: z.string().max(128).regex(ORIGIN, "a host and a path, without a scheme"),
  size: z.int().min(0),
  root: binding,
});

/** Calls that sign typed statements; receipts and checkpoints with the vault's service key, the others with a tenant's. */
export function createStatementCalls(operations: StatementOperations): readonly Call[] {
  const sign = (kind: string, handle: Call["handle"]): Call => ({
    method: "POST",
    path: `/v1/keys/:id/sign/${kind}`,
    roles: ["api"],
    handle,
  });
  return [
    sign("revocation-list", async ({ caller, keyId, context }) =>
      operations.sequences.revocationList(
        caller,
        keyId,
        await readBody(context.req, revocationList, MAX_LIST_BODY_BYTES),
      ),
    ),
    sign("revocation-push", async ({ caller, keyId, context }) =>
      operations.sequences.revocationPush(caller, keyId, await readBody(context.req, revocationPush)),
    ),
    sign("key-rotation", async ({ caller, keyId, context }) =>
      operations.signRotation(caller, keyId, await readBody(context.req, rotation)),
    ),
    sign("receipt", async ({ caller, keyId, context }) =>
      operations.sequences.receipt(caller, keyId, await readBody(context.req, receipt)),
    ),
    sign("checkpoint", async ({ caller, keyId, context }) =>
      operations.sequences.checkpoint(caller, keyId, await readBody(context.req, checkpoint)),
    ),
  ];
}
