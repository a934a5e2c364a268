import { randomUUID } from "node:crypto";
import type { Database } from "../../src/db/database.ts";
import type { DelegationRequestRow } from "../../src/db/tables.ts";
import { newRequestId } from "../../src/ids.ts";
import type { Person, TestApi } from "./api.ts";
import type { HttpAnswer, HttpClient } from "./http.ts";

/** A registered platform and the response to its registration. */
export type TestPlatform = { platformId: string; connectionId: string; apiKey: string; answer: HttpAnswer };

export async function registerPlatform(
  { client }: Person,
  fields: Record<string, unknown> = {},
  path = "/v1/service/platforms/personal",
): Promise<TestPlatform> {
  const answer = await client.post(path, {
    name: "Shop",
    surface_type: "agentic_api",
    default_allowed_scopes: ["data:read", "data:share", "payments:send", "custom:orders:refund"],
    ...fields,
  });
  if (answer.status !== 201) throw new Error(answer.text);
  const { platform_id, connection_id, api_key } = answer.body as Record<string, string>;
  return { platformId: platform_id ?? "", connectionId: connection_id ?? "", apiKey: api_key ?? "", answer };
}

export async function createAgent(
  client: HttpClient,
  platform: Pick<TestPlatform, "connectionId" | "apiKey">,
  fields: Record<string, unknown> = {},
): Promise<string> {
  const answer = await client.post(
    `/v1/service/connections/${platform.connectionId}/agents`,
    { name: "shop-bot", agent_type: "api_agent", ...fields },
    { headers: { "x-service-api-key": platform.apiKey } },
  );
  if (answer.status !== 201) throw new Error(answer.text);
  return String(answer.body.agent_id);
}

export async function selfRequest(
  { client }: Person,
  connectionId: string,
  fields: Record<string, unknown> = {},
): Promise<string> {
  const answer = await client.post("/v1/service/delegations/self-request", {
    connection_id: connectionId,
    ...fields,
  });
  if (answer.status !== 201) throw new Error(answer.text);
  return String(answer.body.request_id);
}

/** Stores `count` copies of a pending request, with other values of some columns. */
export async function copyRequest(
  db: Database,
  requestId: string,
  count: number,
  columns: Partial<DelegationRequestRow> = {},
): Promise<void> {
  const row = await db("delegation_requests").where({ request_id: requestId }).first();
  if (row === undefined) throw new Error(`There is no request ${requestId}`);
  const constraints = JSON.stringify(row.constraints) as unknown as unknown[];
  const copies = Array.from({ length: count }, () => ({
    ...row,
    constraints,
    external_id: row.external_id === null ? null : `c1.${randomUUID()}`,
    ...columns,
    request_id: newRequestId(),
  }));
  await db.batchInsert("delegation_requests", copies);
}

/** Returns an error response's code, or `undefined` for any other response. */
export function errorCode({ body }: Pick<HttpAnswer, "body">): unknown {
  return (body.error as { code?: unknown } | undefined)?.code;
}

export function approve(
  { client }: Person,
  requestId: string,
  scope: string[],
  fields: Record<string, unknown> = {},
): Promise<HttpAnswer> {
  const path = `/v1/service/delegations/requests/${requestId}/approve`;
  return client.post(path, { approved_scope: scope, ...fields });
}

/** Creates an agent with a pending delegation request, and a person and a platform unless they are given. */
export async function requested(
  api: TestApi,
  fields: Record<string, unknown> = {},
  given?: { person: Person; platform: TestPlatform },
) {
  const person = given?.person ?? (await api.person());
  const platform = given?.platform ?? (await registerPlatform(person));
  const agentId = await createAgent(api.client(), platform);
  const requestId = await selfRequest(person, platform.connectionId, fields);
  return { person, platform, agentId, requestId };
}

/** Creates the same as {@link requested} and approves the request for `scope`. */
export async function delegated(
  api: TestApi,
  scope: string[] = ["data:read"],
  given?: { person: Person; platform: TestPlatform },
) {
  const pending = await requested(api, {}, given);
  const answer = await approve(pending.person, pending.requestId, scope);
  if (answer.status !== 200) throw new Error(answer.text);
  return { ...pending, certId: String(answer.body.cert_id), answer };
}
