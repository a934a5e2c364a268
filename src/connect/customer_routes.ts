import { z } from "zod";
import { isUuid } from "../ids.ts";
import { pageOf, pageQuery, readPage } from "../input/pagination.ts";
import { rotationBody } from "../input/platform_fields.ts";
import { idText, isoTime, searchText } from "../input/schemas.ts";
import type { RetireDeps } from "../platforms/api_keys/rotate_key.ts";
import { endCustomerConnection } from "../platforms/connections/connection_changes.ts";
import {
  removedConnection,
  rotatedKey,
  withinRotations,
} from "../platforms/connections/connection_routes.ts";
import type { VaultSyncDeps } from "../platforms/sync_vault.ts";
import type { ActionLimits } from "../rates/action_limits.ts";
import { type Route, route } from "../route.ts";
import {
  type CustomerRecord,
  filterCustomers,
  findCustomer,
  requirePublisher,
  rotateCustomerKey,
} from "./customers.ts";

const PATH = "/v1/service/platforms/{platform_id}/customers";
const ONE = `${PATH}/{connection_id}`;
const params = z.object({ platform_id: idText, connection_id: idText });

const shown = z.object({
  connection_id: z.string(),
  org_id: z.string(),
  org_name: z.string(),
  allowed_scopes: z.array(z.string()),
  agents: z.int(),
  delegations: z.int(),
  created_at: isoTime,
  last_used_at: isoTime.nullable(),
  removed_at: isoTime.nullable(),
});

/** A customer of a platform, as the API returns it. */
export type CustomerAnswer = z.infer<typeof shown>;

type Deps = VaultSyncDeps & RetireDeps & { actionLimits: ActionLimits };

/** Returns the operations of a platform's publisher on its customers. */
export function customerRoutes(deps: Deps): Route[] {
  return [listRoute(deps), readRoute(deps), rotateRoute(deps), removeRoute(deps)];
}

function listRoute({ db, clock }: Deps): Route {
  return route({
    id: "list_customers",
    method: "GET",
    path: PATH,
    summary: "List a platform's customers",
    access: "account",
    roles: ["approver", "developer", "auditor"],
    params: params.pick({ platform_id: true }),
    query: pageQuery.extend({
      state: z.enum(["active", "ended"]).default("active"),
      org_id: idText.optional(),
      q: searchText.optional(),
    }),
    answer: { status: 200, schema: pageOf(shown), description: "Newest first" },
    errors: ["not_found"],
    async handle({ caller, params: { platform_id: platformId }, query: { state, org_id, q, ...page } }) {
      await requirePublisher(db, caller, platformId);
      const place = { accountId: caller.accountId, platformId, now: clock.now() };
      const order = { time: "c.created_at", id: "c.connection_id", isId: isUuid };
      const found = filterCustomers(db, place, { state, org_id, q });
      const { rows, next_cursor } = await readPage<CustomerRecord>(found, order, page);
      return { body: { items: rows.map(show), next_cursor } };
    },
  });
}

function readRoute({ db, clock }: Deps): Route {
  return route({
    id: "get_customer",
    method: "GET",
    path: ONE,
    summary: "Get a customer",
    access: "account",
    roles: ["approver", "developer", "auditor"],
    params,
    answer: { status: 200, schema: shown, description: "The customer" },
    errors: ["not_found"],
    async handle({ caller, params }) {
      await requirePublisher(db, caller, params.platform_id);
      return { body: show(await findCustomer(db, { ...placeOf(caller, params), now: clock.now() })) };
    },
  });
}

function rotateRoute(deps: Deps): Route {
  return route({
    id: "rotate_customer_key",
    method: "POST",
    path: `${ONE}/rotate-key`,
    summary: "Replace a customer's API key",
    access: "session",
    ends: true,
    roles: ["developer"],
    idempotent: true,
    showsSecret: true,
    params,
    body: rotationBody,
    answer: {
      status: 200,
      schema: rotatedKey,
      description: "The new key",
    },
    errors: ["not_found", "action_limited"],
    async handle({ caller, params, body }) {
      const place = placeOf(caller, params);
      const { connection_id } = await findCustomer(deps.db, { ...place, now: deps.clock.now() });
      const rotate = () => rotateCustomerKey(deps, place, body?.grace_seconds ?? 0);
      return { body: await withinRotations(deps, { connection_id, caller }, rotate) };
    },
  });
}

function removeRoute(deps: Deps): Route {
  return route({
    id: "remove_customer",
    method: "DELETE",
    path: ONE,
    summary: "End a customer's connection",
    access: "session",
    roles: ["developer"],
    idempotent: true,
    params,
    answer: {
      status: 200,
      schema: removedConnection,
      description: "No decision allows anymore",
    },
    errors: ["not_found"],
    async handle({ caller, params }) {
      const { accountId, platformId, connectionId } = placeOf(caller, params);
      const party = { account_id: accountId, product_id: platformId };
      const removedAt = await endCustomerConnection(deps, connectionId, party);
      return { body: { connection_id: params.connection_id, removed_at: removedAt.toISOString() } };
    },
  });
}

function placeOf(
  { accountId }: { accountId: string },
  params: { platform_id: string; connection_id: string },
) {
  return { accountId, platformId: params.platform_id, connectionId: params.connection_id };
}

function show(record: CustomerRecord): CustomerAnswer {
  const { connection_id, org_id, org_name, allowed_scopes, agents, delegations } = record;
  return {
    ...{ connection_id, org_id, org_name, allowed_scopes, agents, delegations },
    created_at: record.created_at.toISOString(),
    last_used_at: record.last_used_at?.toISOString() ?? null,
    removed_at: record.removed_at?.toISOString() ?? null,
  };
}
