import { z } from "zod";
import type { ListAudit } from "../audit/list.ts";
import type { CreateBackup } from "../backup/create.ts";
import type { Refusal } from "../errors.ts";
import type { RetireKek } from "../kek/retire.ts";
import type { Rewrapping, RotateKek } from "../kek/rewrap.ts";
import type { AdoptStates } from "../lifecycle/adopt_states.ts";
import type {
  CancelKeyDestruction,
  CancelTenantDestruction,
  DestroyKey,
  DestroyTenant,
  EnableKey,
} from "../lifecycle/destroy.ts";
import type { Sealing } from "../lifecycle/sealing.ts";
import type { ReadStatus } from "../status.ts";
import { readBody, validate } from "./body.ts";
import { type Call, get, type Invocation, post } from "./routes.ts";
import { tenantName } from "./schemas.ts";

/** Operations behind the calls of vault administrators. */
export type AdminOperations = {
  listAudit: ListAudit;
  createBackup: CreateBackup;
  enableKey: EnableKey;
  destroyKey: DestroyKey;
  cancelKeyDestruction: CancelKeyDestruction;
  destroyTenant: DestroyTenant;
  cancelTenantDestruction: CancelTenantDestruction;
  adoptStates: AdoptStates;
  rotateKek: RotateKek;
  retireKek: RetireKek;
  rewrapping: Pick<Rewrapping, "start">;
};

/** Operations that also work while the vault is sealed. */
export type SealOperations = { sealing: Sealing; readStatus: ReadStatus };

const nothing = z.strictObject({});
const auditQuery = z.strictObject({
  after: z.coerce.number().int().min(0).exactOptional(),
  limit: z.coerce.number().int().min(1).max(1000).default(100),
});
const kekVersion = z.strictObject({ kek: z.string().regex(/^kek-[1-9]\d{0,8}$/) });
const destruction = z.strictObject({ after_days: z.int().min(7).max(30) });
const sealedPin = z.strictObject({
  offer: z.string().regex(/^[A-Za-z0-9+/]{43}=$/, "base64 of 32 bytes"),
  box: z.string().regex(/^[A-Za-z0-9+/]{405}[AQgw]==$/, "base64 of 304 bytes"),
  final_try: z.boolean().exactOptional(),
});

/**
 * Returns the calls that only vault administrators may make. Enabling, destroying and adopting need two
 * admins. A call that starts a rewrapping returns immediately, and the status reports its progress. A backup
 * is sent as `application/octet-stream`, encrypted to the recovery key.
 */
export function createAdminCalls(operations: AdminOperations): readonly Call[] {
  return [
    get("/v1/audit", ["admin", "auditor"], ({ context }) =>
      operations.listAudit(validate(auditQuery, { ...context.query }, "query")),
    ),
    {
      ...plainCall("/v1/backup", ({ caller }) => operations.createBackup(caller)),
      roles: ["admin", "backup"],
    },
    plainCall("/v1/keys/:id/enable", ({ caller, keyId }) => operations.enableKey(caller, keyId)),
    post("/v1/keys/:id/destroy", ["admin"], async ({ caller, keyId, context }) => {
      const { after_days } = await readBody(context, destruction);
      return operations.destroyKey(caller, keyId, after_days);
    }),
    plainCall("/v1/keys/:id/destroy/cancel", ({ caller, keyId }) =>
      operations.cancelKeyDestruction(caller, keyId),
    ),
    post("/v1/tenants/:tenant/destroy", ["admin"], async ({ caller, context }) => {
      const tenant = validate(tenantName, context.params.tenant, "path");
      const { after_days } = await readBody(context, destruction);
      return operations.destroyTenant(caller, tenant, after_days);
    }),
    post("/v1/tenants/:tenant/destroy/cancel", ["admin"], async ({ caller, context }) => {
      const tenant = validate(tenantName, context.params.tenant, "path");
      await readBody(context, nothing);
      return operations.cancelTenantDestruction(caller, tenant);
    }),
    plainCall("/v1/states/adopt", ({ caller }) => operations.adoptStates(caller)),
    plainCall("/v1/kek/rotate", ({ caller }) => operations.rotateKek(caller)),
    plainCall("/v1/kek/rewrap", ({ caller }) => operations.rewrapping.start(caller)),
    post("/v1/kek/retire", ["admin"], async ({ caller, context }) =>
      operations.retireKek(caller, (await readBody(context, kekVersion)).kek),
    ),
  ];
}

/** Returns the calls that also work while the vault is sealed. */
export function createSealCalls({ sealing, readStatus }: SealOperations): readonly Call[] {
  return [
    get("/v1/status", ["admin", "auditor"], () => readStatus()),
    plainCall("/v1/seal", async ({ caller }) => ({ sealed: true, ...(await sealing.seal(caller)) })),
    get("/v1/unseal", ["admin"], async () => sealing.offer()),
    post("/v1/unseal", ["admin"], async ({ caller, context }) =>
      sealing.unseal(caller, await readBody(context, sealedPin)),
    ),
  ];
}

/** Returns a `POST` call for admins only, with an empty object as its body. */
function plainCall(path: string, work: (invocation: Invocation) => Promise<object | Refusal>): Call {
  return post(path, ["admin"], async (invocation) => {
    await readBody(invocation.context, nothing);
    return work(invocation);
  });
}
