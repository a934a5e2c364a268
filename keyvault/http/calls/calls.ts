import type { ListAudit } from "../../audit/list.ts";
import type { Caller, Role } from "../../audit/record.ts";
import type { CreateBackup } from "../../backup/create.ts";
import type { Refusal } from "../../errors.ts";
import { VaultError } from "../../errors.ts";
import type { CreateKey } from "../../keys/creation/create.ts";
import type { DisableKey } from "../../keys/disable.ts";
import type { GetKey } from "../../keys/get.ts";
import type { ListKeys } from "../../keys/list.ts";
import type { ShrinkCeiling } from "../../keys/shrink_ceiling.ts";
import type { SignChallenge } from "../../sign/challenge.ts";
import type { SignDelegation } from "../../sign/delegation.ts";
import { readBody, shaped } from "../body.ts";
import type { CallContext } from "../routes.ts";
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
} from "../schemas.ts";
import { createAuditCalls } from "./audit_calls.ts";
import { createBackupCalls } from "./backup_calls.ts";
import { createKekCalls, type KekOperations } from "./kek_calls.ts";
import { createLifecycleCalls, type LifecycleOperations } from "./lifecycle_calls.ts";
import { createStatementCalls, type StatementOperations } from "./statement_calls.ts";

/** The operations behind the calls. */
export type Operations = LifecycleOperations &
  KekOperations &
  StatementOperations & {
    createKey: CreateKey;
    getKey: GetKey;
    listKeys: ListKeys;
    disableKey: DisableKey;
    shrinkCeiling: ShrinkCeiling;
    signDelegation: SignDelegation;
    signChallenge: SignChallenge;
    listAudit: ListAudit;
    createBackup: CreateBackup;
  };

/** One call as its handler sees it: who calls, the key in the path, the request. */
export type Invocation = { caller: Caller; keyId: string; context: CallContext };

/** One call: who may make it, and what it does. A handler answers with a body or a refusal. */
export type Call = {
  method: "GET" | "POST";
  path: string;
  roles: readonly Role[];
  handle(invocation: Invocation): Promise<object | Refusal>;
};

/**
 * Every call of an open vault, with its roles: with those that a sealed one answers too, all there is to
 * reach from outside.
 */
export function createCalls(operations: Operations): readonly Call[] {
  return [
    ...createAuditCalls(operations),
    ...createBackupCalls(operations),
    {
      method: "POST",
      path: "/v1/keys",
      roles: ["api"],
      handle: async ({ caller, context }) => {
        const requestKey = context.get("idempotency-key");
        if (!idempotencyKeyPattern.test(requestKey)) {
          throw new VaultError("invalid_request", "idempotency-key: missing or malformed");
        }
        const request = await readBody(context, createKeyBody);
        return operations.createKey(caller, `${caller.role}:${requestKey}`, request);
      },
    },
    {
      method: "GET",
      path: "/v1/keys",
      roles: ["admin", "auditor"],
      handle: ({ context }) => operations.listKeys(shaped(listQuery, { ...context.query }, "query")),
    },
    {
      method: "GET",
      path: "/v1/keys/:id",
      roles: ["api", "admin", "auditor"],
      handle: ({ caller, keyId, context }) => {
        const { tenant } = shaped(keyQuery, { ...context.query }, "query");
        return operations.getKey(keyId, ownTenant(caller, tenant));
      },
    },
    {
      method: "POST",
      path: "/v1/keys/:id/disable",
      roles: ["api", "admin"],
      handle: async ({ caller, keyId, context }) => {
        const { tenant } = await readBody(context, disableBody);
        return operations.disableKey(caller, { keyId, tenant: ownTenant(caller, tenant) });
      },
    },
    {
      method: "POST",
      path: "/v1/keys/:id/ceiling",
      roles: ["api"],
      handle: async ({ caller, keyId, context }) => {
        const { tenant, ceiling } = await readBody(context, ceilingBody);
        return operations.shrinkCeiling(caller, { keyId, tenant }, ceiling);
      },
    },
    {
      method: "POST",
      path: "/v1/keys/:id/sign/delegation",
      roles: ["api"],
      handle: async ({ caller, keyId, context }) =>
        operations.signDelegation(caller, keyId, await readBody(context, delegationBody)),
    },
    {
      method: "POST",
      path: "/v1/keys/:id/sign/challenge",
      roles: ["api"],
      handle: async ({ caller, keyId, context }) => {
        const { tenant, stream, ...binding } = await readBody(context, challengeBody);
        return operations.signChallenge(caller, keyId, { tenant, binding: { ...binding, ...stream } });
      },
    },
    ...createLifecycleCalls(operations),
    ...createKekCalls(operations),
    ...createStatementCalls(operations),
  ];
}

/**
 * The tenant a caller is held to: the API always says whose key it means, so that a mix-up of tenants is
 * refused here too.
 */
function ownTenant(caller: Caller, tenant: string | undefined): string | undefined {
  if (caller.role === "api" && tenant === undefined) {
    throw new VaultError("invalid_request", "tenant: missing");
  }
  return tenant;
}

/** Whether the text has a key id's form; what has not is answered like a key that does not exist. */
export function isKeyId(text: string): boolean {
  return keyIdPattern.test(text);
}
