import type { Caller } from "../audit/record.ts";
import { refuse, VaultError } from "../errors.ts";
import type { DisableKey, ShrinkCeiling } from "../keys/change.ts";
import type { CreateKey } from "../keys/create.ts";
import type { GetKey, ListKeys } from "../keys/view.ts";
import type { SignChallenge } from "../sign/challenge.ts";
import type { SignDelegation } from "../sign/delegation.ts";
import type { SignRevocationList } from "../sign/revocation_list.ts";
import { type AdminOperations, createAdminCalls } from "./admin_calls.ts";
import { MAX_LIST_BODY_BYTES, readBody, validate } from "./body.ts";
import { type Call, get, post } from "./routes.ts";
import {
  ceilingBody,
  challengeBody,
  createKeyBody,
  delegationBody,
  disableBody,
  idempotencyKeyPattern,
  keyIdPattern,
  keyQuery,
  listQuery,
  revocationListBody,
} from "./schemas.ts";

/** Operations behind the calls of an open vault. */
export type Operations = AdminOperations & {
  createKey: CreateKey;
  getKey: GetKey;
  listKeys: ListKeys;
  disableKey: DisableKey;
  shrinkCeiling: ShrinkCeiling;
  signDelegation: SignDelegation;
  signChallenge: SignChallenge;
  signRevocationList: SignRevocationList;
};

/**
 * Statements of the wire format that no feature uses yet, refused for every role. Each needs a signing rule
 * first.
 */
const WITHHELD = ["revocation-push", "key-rotation", "receipt", "checkpoint"] as const;

/** Returns every call of an open vault, with its roles. The only other calls are those of a sealed vault. */
export function createCalls(operations: Operations): readonly Call[] {
  return [
    post("/v1/keys", ["api"], async ({ caller, context }) => {
      const requestKey = context.get("idempotency-key");
      if (!idempotencyKeyPattern.test(requestKey)) {
        throw new VaultError("invalid_request", "idempotency-key: missing or malformed");
      }
      const request = await readBody(context, createKeyBody);
      return operations.createKey(caller, `${caller.role}:${requestKey}`, request);
    }),
    get("/v1/keys", ["admin", "auditor"], ({ context }) =>
      operations.listKeys(validate(listQuery, { ...context.query }, "query")),
    ),
    get("/v1/keys/:id", ["api", "admin", "auditor"], ({ caller, keyId, context }) => {
      const { tenant } = validate(keyQuery, { ...context.query }, "query");
      return operations.getKey(keyId, ownTenant(caller, tenant));
    }),
    post("/v1/keys/:id/disable", ["api", "admin"], async ({ caller, keyId, context }) => {
      const { tenant } = await readBody(context, disableBody);
      return operations.disableKey(caller, { keyId, tenant: ownTenant(caller, tenant) });
    }),
    post("/v1/keys/:id/ceiling", ["api"], async ({ caller, keyId, context }) => {
      const { tenant, ceiling } = await readBody(context, ceilingBody);
      return operations.shrinkCeiling(caller, { keyId, tenant }, ceiling);
    }),
    post("/v1/keys/:id/sign/delegation", ["api"], async ({ caller, keyId, context }) =>
      operations.signDelegation(caller, keyId, await readBody(context, delegationBody)),
    ),
    post("/v1/keys/:id/sign/challenge", ["api"], async ({ caller, keyId, context }) => {
      const { tenant, stream, ...binding } = await readBody(context, challengeBody);
      return operations.signChallenge(caller, keyId, { tenant, binding: { ...binding, ...stream } });
    }),
    post("/v1/keys/:id/sign/revocation-list", ["api"], async ({ caller, keyId, context }) => {
      const request = await readBody(context, revocationListBody, MAX_LIST_BODY_BYTES);
      return operations.signRevocationList(caller, keyId, request);
    }),
    ...WITHHELD.map((kind) => post(`/v1/keys/:id/sign/${kind}`, [], async () => refuse("forbidden"))),
    ...createAdminCalls(operations),
  ];
}

/** The API must always name the tenant of a key, so that the vault also detects a mix-up of tenants. */
function ownTenant(caller: Caller, tenant: string | undefined): string | undefined {
  if (caller.role === "api" && tenant === undefined) {
    throw new VaultError("invalid_request", "tenant: missing");
  }
  return tenant;
}

/** Returns whether the text has the form of a key id. */
export function isKeyId(text: string): boolean {
  return keyIdPattern.test(text);
}
