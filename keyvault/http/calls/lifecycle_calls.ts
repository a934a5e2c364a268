import { z } from "zod";
import type { AdoptStates } from "../../lifecycle/adopt_states.ts";
import type { CancelKeyDestruction, DestroyKey } from "../../lifecycle/destroy_key.ts";
import type { CancelTenantDestruction, DestroyTenant } from "../../lifecycle/destroy_tenant.ts";
import type { EnableKey } from "../../lifecycle/enable_key.ts";
import { readBody, shaped } from "../body.ts";
import { tenantName } from "../schemas.ts";
import type { Call } from "./calls.ts";

/** The operations behind the calls that begin or end keys' lives. */
export type LifecycleOperations = {
  enableKey: EnableKey;
  destroyKey: DestroyKey;
  cancelKeyDestruction: CancelKeyDestruction;
  destroyTenant: DestroyTenant;
  cancelTenantDestruction: CancelTenantDestruction;
  adoptStates: AdoptStates;
};

const nothing = z.strictObject({});
const destruction = z.strictObject({ after_days: z.int().min(7).max(30) });

/** Calls that only admins make, the first four of which take two of them. */
export function createLifecycleCalls(operations: LifecycleOperations): readonly Call[] {
  return [
    {
      method: "POST",
      path: "/v1/keys/:id/enable",
      roles: ["admin"],
      handle: async ({ caller, keyId, context }) => {
        await readBody(context, nothing);
        return operations.enableKey(caller, keyId);
      },
    },
    {
      method: "POST",
      path: "/v1/keys/:id/destroy",
      roles: ["admin"],
      handle: async ({ caller, keyId, context }) => {
        const { after_days } = await readBody(context, destruction);
        return operations.destroyKey(caller, keyId, after_days);
      },
    },
    {
      method: "POST",
      path: "/v1/tenants/:tenant/destroy",
      roles: ["admin"],
      handle: async ({ caller, context }) => {
        const tenant = shaped(tenantName, context.params.tenant, "path");
        const { after_days } = await readBody(context, destruction);
        return operations.destroyTenant(caller, tenant, after_days);
      },
    },
    {
      method: "POST",
      path: "/v1/states/adopt",
      roles: ["admin"],
      handle: async ({ caller, context }) => {
        await readBody(context, nothing);
        return operations.adoptStates(caller);
      },
    },
    {
      method: "POST",
      path: "/v1/keys/:id/destroy/cancel",
      roles: ["admin"],
      handle: async ({ caller, keyId, context }) => {
        await readBody(context, nothing);
        return operations.cancelKeyDestruction(caller, keyId);
      },
    },
    {
      method: "POST",
      path: "/v1/tenants/:tenant/destroy/cancel",
      roles: ["admin"],
      handle: async ({ caller, context }) => {
        const tenant = shaped(tenantName, context.params.tenant, "path");
        await readBody(context, nothing);
        return operations.cancelTenantDestruction(caller, tenant);
      },
    },
  ];
}
