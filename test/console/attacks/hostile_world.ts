import { consolePages } from "../../../src/console/pages.ts";
import type { Database } from "../../../src/db/database.ts";
import { declaredFields } from "../../../src/input/declared_fields.ts";
import type { TestApi } from "../../support/api.ts";
import { delegationViewer } from "../delegations/delegation_viewer.ts";
import type { Shown } from "../support/console.ts";
import { pathOf, readerOf, type Seen } from "../support/visits.ts";

const DECLARED = Object.values(declaredFields).map(({ column }) => column);

/** Columns that attackers can fill, by table. If a column is not text, {@link AS} has its SQL expression. */
const FILLED: Record<string, readonly string[]> = {
  accounts: ["first_name", "last_name", "organization_name", "email"],
  adoptions: ["cluster_id", "namespace", "name"],
  agents: ["name", "object_name"],
  audit_events: ["decision_reason", "required_scope", "verifier_platform_name", "verifier_organization_name"],
  certificates: ["approved_scope", "revoke_reason"],
  cluster_approvers: ["cluster_id", "username"],
  connections: ["verifier_id", "callback_url", "outside_verifiers", "customer_name"],
  delegation_requests: ["requested_scope", "constraints", "object_name", ...DECLARED],
  organization_activity: ["actor_email", "target", "operation"],
  organization_invitations: ["email"],
  platforms: ["name", "description", "default_allowed_scopes", "object_name", "object_namespace"],
  webhook_attempts: ["detail", "response_excerpt"],
  webhook_deliveries: ["body"],
};

const AS: Record<string, string> = {
  approved_scope: "array[?::text]",
  requested_scope: "array[?::text]",
  default_allowed_scopes: "array[?::text]",
  outside_verifiers: "array[?::text]",
  constraints: "json_build_array(json_build_object('type', 'x' || ?, 'params', json_build_object('a', ?)))",
  target: "json_build_object('name', ?::text)::jsonb",
  response_excerpt: "convert_to(?, 'UTF8')",
  callback_url: "'https://shop.example.com/' || ?",
  body: "json_build_object('event', ?)::text",
  email: 'lower(? collate "C")',
};

/** Conditions for rows to fill. Service administrators are recognized by their address, which must stay. */
const ONLY: Record<string, string> = {
  "accounts.email": "account_id in (select account_id from organization_members)",
};

/** Every column that attackers can fill, as `table.column`. */
export const FIELDS = Object.entries(FILLED).flatMap(([table, columns]) =>
  columns.map((column) => ({ table, column, name: `${table}.${column}` })),
);

/**
 * Writes a text into each of the {@link FIELDS} of every row that has a value. Bypasses the API, which would
 * refuse many texts. The text ends with the row's number, because some values must be unique. A row has the
 * same number in every world: otherwise, a certificate would match its request's scopes in one world only.
 */
export async function fill(db: Database, textFor: (field: string) => string): Promise<void> {
  for (const { table, column, name } of FIELDS) {
    const value = (AS[column] ?? "?").replaceAll("?", "(?::text || ' ' || n.number)");
    const filled = `array[${FILLED[table]?.map((each) => `'${each}'`)}]`;
    await db.raw(
      `update "${table}" as t set "${column}" = ${value}
       from (select tableoid as part, ctid as place,
               row_number() over (order by (to_jsonb(row) - ${filled})::text) as number
             from "${table}" as row) as n
       where t.tableoid = n.part and t.ctid = n.place and "${column}" is not null and ${ONLY[name] ?? "true"}`,
      Array.from(value.matchAll(/\?/g), () => textFor(name)),
    );
  }
}

/** Returns the id of a request that a cluster object seems to have declared. */
async function declare(db: Database, account_id: string): Promise<string> {
  const object = { external_id: db.raw("'c1.' || agent_id"), object_name: "an object" };
  await db("platforms").where({ account_id }).update({ object_namespace: "shop" });
  await db("agents").where({ account_id }).update(object);
  const [request] = await db("delegation_requests")
    .where({ account_id })
    .update({ ...object, ...Object.fromEntries(DECLARED.map((column) => [column, "a text"])) })
    .returning("request_id");
  return String(request?.request_id);
}

/** Returns a viewer and a path for every page. */
export async function everybody(api: TestApi): Promise<Map<string, { seen: Seen; path: string }>> {
  const found = new Map<string, { seen: Seen; path: string }>();
  for (const { id } of consolePages) {
    const seen = await readerOf(api, id);
    found.set(id, { seen, path: pathOf(id, seen) });
  }
  const revoked = await delegationViewer(api, { isRevoked: true });
  const request = await declare(api.db, revoked.ids.account ?? "");
  for (const id of ["delegation", "agent", "request"]) {
    const seen = { ...revoked, ids: { ...revoked.ids, request } };
    found.set(`${id}, of YAML`, { seen, path: pathOf(id, seen) });
  }
  return found;
}

/** Returns every page as its viewer sees it now. */
export async function allPages(
  viewers: ReadonlyMap<string, { seen: Seen; path: string }>,
): Promise<Map<string, Shown>> {
  const pages = new Map<string, Shown>();
  for (const [id, { seen, path }] of viewers) pages.set(id, await seen.open(path));
  return pages;
}
