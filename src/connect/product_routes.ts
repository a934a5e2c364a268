import { z } from "zod";
import { isUuid } from "../ids.ts";
import { pageOf, pageQuery, readPage } from "../input/pagination.ts";
import { scopeList, shownDescriptions } from "../input/platform_fields.ts";
import { idText, isoTime } from "../input/schemas.ts";
import type { RetireDeps } from "../platforms/api_keys/rotate_key.ts";
import {
  endCustomerConnection,
  endCustomerConnections,
} from "../platforms/connections/connection_changes.ts";
import { removedConnection } from "../platforms/connections/connection_routes.ts";
import { pickDescriptions } from "../platforms/scope_descriptions.ts";
import type { VaultSyncDeps } from "../platforms/sync_vault.ts";
import { type Route, route } from "../route.ts";
import {
  findConnectedProduct,
  isRead,
  narrowProduct,
  type ProductRecord,
  type Read,
  selectProducts,
} from "./products.ts";

const PATH = "/v1/service/connected-products";
const ONE = `${PATH}/{connection_id}`;
const params = z.object({ connection_id: idText });

/** The text that a person read when the account was connected last. `scopes` are the chosen ones. */
const consent = z.object({
  scopes: z.array(z.string()),
  offered: z.array(z.string()),
  platform_name: z.string(),
  publisher: z.object({ name: z.string(), domain: z.string().nullable() }),
  account_label: z.string().nullable(),
  scope_descriptions: shownDescriptions,
  consented_at: isoTime,
  by: z.string().nullable(),
  approved_by: z.string().nullable(),
  approved_at: isoTime.nullable(),
});

const shown = z.object({
  connection_id: z.string(),
  platform: z.object({ platform_id: z.string(), name: z.string() }),
  publisher: z.object({ name: z.string(), domain: z.string().nullable() }),
  is_test: z.boolean(),
  customer_name: z.string(),
  allowed_scopes: z.array(z.string()),
  scope_descriptions: shownDescriptions,
  agents: z.int(),
  delegations: z.int(),
  created_at: isoTime,
  last_used_at: isoTime.nullable(),
  consent: consent.nullable(),
});

/** A connected product, as the API returns it. */
export type ProductAnswer = z.infer<typeof shown>;

type Deps = VaultSyncDeps & RetireDeps;

/** Returns the operations on products of other accounts to which an account is connected. */
export function productRoutes(deps: Deps): Route[] {
  return [listRoute(deps), readRoute(deps), narrowRoute(deps), endRoute(deps), endAllRoute(deps)];
}

function listRoute({ db, clock }: Deps): Route {
  return route({
    id: "list_connected_products",
    method: "GET",
    path: PATH,
    summary: "List connected products",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    query: pageQuery.extend({ platform_id: z.guid().optional() }),
    answer: { status: 200, schema: pageOf(shown), description: "Newest first" },
    errors: [],
    async handle({ caller: { accountId }, query: { platform_id, ...page } }) {
      const order = { time: "c.created_at", id: "c.connection_id", isId: isUuid };
      const found = selectProducts(db, { accountId, now: clock.now() });
      if (platform_id !== undefined) found.where({ "c.product_id": platform_id });
      const { rows, next_cursor } = await readPage<ProductRecord>(found, order, page);
      return { body: { items: rows.map(show), next_cursor } };
    },
  });
}

function readRoute({ db, clock }: Deps): Route {
  return route({
    id: "get_connected_product",
    method: "GET",
    path: ONE,
    summary: "Get a connected product",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    params,
    answer: { status: 200, schema: shown, description: "The product" },
    errors: ["not_found"],
    async handle({ caller: { accountId }, params: { connection_id: connectionId } }) {
      return { body: show(await findConnectedProduct(db, { accountId, connectionId, now: clock.now() })) };
    },
  });
}

function narrowRoute({ db, clock, secretBox }: Deps): Route {
  return route({
    id: "narrow_connected_product",
    method: "PATCH",
    path: ONE,
    summary: "Narrow a connected product",
    access: "session",
    roles: ["approver"],
    ends: true,
    idempotent: true,
    params,
    body: z.object({ allowed_scopes: scopeList }),
    answer: { status: 200, schema: shown, description: "The product" },
    errors: ["not_found", "invalid_scopes", "ceiling_widened"],
    async handle({ caller: { accountId }, params: { connection_id: connectionId }, body }) {
      const place = { accountId, connectionId };
      await db.transaction((tx) => narrowProduct(tx, { secretBox, clock }, place, body.allowed_scopes));
      return { body: show(await findConnectedProduct(db, { ...place, now: clock.now() })) };
    },
  });
}

function endRoute(deps: Deps): Route {
  return route({
    id: "end_connected_product",
    method: "DELETE",
    path: ONE,
    summary: "End the connection with a product",
    access: "session",
    roles: ["approver"],
    idempotent: true,
    params,
    answer: {
      status: 200,
      schema: removedConnection,
      description: "No decision allows anymore",
    },
    errors: ["not_found"],
    async handle({ caller: { accountId }, params: { connection_id: connectionId } }) {
      const removedAt = await endCustomerConnection(deps, connectionId, { customer_account_id: accountId });
      return { body: { connection_id: connectionId, removed_at: removedAt.toISOString() } };
    },
  });
}

function endAllRoute(deps: Deps): Route {
  return route({
    id: "end_connected_products",
    method: "DELETE",
    path: PATH,
    summary: "End the connections with all products",
    access: "session",
    roles: ["approver"],
    idempotent: true,
    answer: {
      status: 200,
      schema: z.object({ ended: z.int() }),
      description: "No decision allows anymore",
    },
    errors: [],
    handle: async ({ caller }) => ({ body: { ended: await endCustomerConnections(deps, caller.accountId) } }),
  });
}

function show(record: ProductRecord): ProductAnswer {
  const { platform_id, platform_name, publisher_name, publisher_domain } = record;
  const { connection_id, customer_name, allowed_scopes, agents, delegations, is_test } = record;
  return {
    connection_id,
    platform: { platform_id, name: platform_name },
    publisher: { name: publisher_name, domain: publisher_domain },
    ...{ is_test, customer_name, allowed_scopes, agents, delegations },
    scope_descriptions: pickDescriptions(record.scope_descriptions, allowed_scopes),
    created_at: record.created_at.toISOString(),
    last_used_at: record.last_used_at?.toISOString() ?? null,
    consent: isRead(record) ? showConsent(record) : null,
  };
}

function showConsent({ consent, consent_scopes: scopes, consented_at, consent_by: by, ...approval }: Read) {
  const { scopes: offered, publisher_name: name, published_domain: domain, ...read } = consent;
  const { platform_name, account_label, scope_descriptions } = read;
  return {
    ...{ scopes, offered, platform_name, account_label, scope_descriptions, by },
    publisher: { name, domain },
    consented_at: consented_at.toISOString(),
    approved_by: approval.approved_by,
    approved_at: approval.approved_at?.toISOString() ?? null,
  };
}
