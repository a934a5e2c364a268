import { randomUUID } from "node:crypto";
import { afterAll, beforeAll } from "vitest";
import { approverRoutes } from "../../src/clusters/approvers.ts";
import { createIdentifyOperator } from "../../src/clusters/identify_operator.ts";
import { claimLeadership } from "../../src/clusters/leader_epochs.ts";
import { acceptBinding } from "../../src/clusters/namespace_binding.ts";
import { namespaceRoutes } from "../../src/clusters/namespace_routes.ts";
import type { TrustedClusters } from "../../src/clusters/trusted_clusters.ts";
import { operatorDelegationRoutes } from "../../src/delegations/declared/operator_routes.ts";
import { delegationRoutes } from "../../src/delegations/routes.ts";
import { deliveryRoutes } from "../../src/deliveries/routes.ts";
import { createSendingRates } from "../../src/deliveries/sending_limits.ts";
import { auditRoutes } from "../../src/history/routes.ts";
import { type ApiKeyFinder, createApiKeyFinder } from "../../src/platforms/api_keys/api_key_finder.ts";
import { operatorPlatformRoutes } from "../../src/platforms/declared/operator_routes.ts";
import { platformRoutes } from "../../src/platforms/routes.ts";
import type { Route } from "../../src/route.ts";
import { createAddressPolicy } from "../../src/webhooks/callback_address.ts";
import { type ApiOptions, OPERATOR_TOKEN, startApi, type TestApi, type TestParts } from "./api.ts";
import { createFakeCluster, type FakeCluster } from "./fake_cluster.ts";
import type { HttpAnswer, HttpClient } from "./http.ts";

/** The API with platforms, delegations, audit and API keys. Development mode allows callbacks to loopback. */
export type PlatformApi = TestApi & {
  clusters: FakeCluster;
  /** Creates an account that accepts the namespace `default` in the cluster `c1`. */
  person(type?: { organization_name: string }): Promise<Person>;
  /**
   * Makes a call as the operator of `cluster`. A declaration without `object` gets a separate one in
   * `default`.
   */
  operator(method: string, path: string, body?: unknown, options?: OperatorOptions): Promise<HttpAnswer>;
  /** Returns a connection's outbox events, in order. */
  events(connectionId: string): Promise<{ event: string; [field: string]: unknown }[]>;
};

/** `epoch` defaults to the leader's epoch. If the cluster has no leader, the call first claims leadership. */
export type OperatorOptions = { cluster?: string; epoch?: number; token?: string };

/** A signed-in person with an onboarded account. */
export type Person = { client: HttpClient; accountId: string; humanId: string; email: string };

export type PlatformParts = TestParts & Pick<ApiKeyFinder, "find">;

export type PlatformOptions = Omit<ApiOptions, "routes"> & {
  development?: boolean;
  /** Real clusters. Operators then authenticate only with their own cluster's tokens. */
  trusted?: TrustedClusters;
  routes?: (parts: PlatformParts) => Route[];
};

export async function startPlatformApi(options: PlatformOptions = {}): Promise<PlatformApi> {
  const callbacks = createAddressPolicy({
    development: options.development ?? true,
    allowedCidrs: options.development === false ? [] : ["127.0.0.0/8"],
  });
  const clusters = createFakeCluster();
  let finder: ApiKeyFinder | undefined;
  const apiKeys = (parts: TestParts): ApiKeyFinder => {
    finder ??= createApiKeyFinder({ ...parts, url: parts.databaseUrl, onError: () => {} });
    return finder;
  };
  const api = await startApi({
    ...options,
    routes: (parts) => [
      ...platformRoutes({
        ...parts,
        callbacks,
        apiKeys: apiKeys(parts),
      }),
      ...deliveryRoutes({ ...parts, apiKeys: apiKeys(parts), sendingRates: createSendingRates(parts.db) }),
      ...namespaceRoutes(parts),
      ...approverRoutes(parts),
      ...delegationRoutes(parts),
      ...auditRoutes(parts),
      ...operatorPlatformRoutes({ ...parts, callbacks, apiKeys: apiKeys(parts) }),
      ...operatorDelegationRoutes({ ...parts, clusters: options.trusted ?? clusters }),
      ...(options.routes?.({ ...parts, find: apiKeys(parts).find }) ?? []),
    ],
    findApiKey: (parts) => apiKeys(parts).find,
    ...(options.trusted && {
      identifyOperator: ({ db, clock }) =>
        createIdentifyOperator({
          db,
          clock,
          clusters: options.trusted as TrustedClusters,
          sharedToken: undefined,
        }),
    }),
  });
  const operatorClient = api.operatorClient();
  return {
    ...api,
    clusters,
    async person(type) {
      const client = api.client();
      const email = `${randomUUID()}@example.test`;
      const { account_id, human_id } = await client.onboard(email, type);
      const place = { clusterId: "c1", namespace: "default" };
      await acceptBinding(api, account_id, place, { ceiling: null, fourEyes: false });
      return { client, accountId: account_id, humanId: human_id, email };
    },
    async operator(method, path, body, { cluster = "c1", epoch, token = OPERATOR_TOKEN } = {}) {
      const headers = {
        authorization: `Bearer ${token}`,
        "x-deputize-cluster": cluster,
        "x-deputize-epoch": String(epoch ?? (await leaderOf(api, cluster))),
      };
      return operatorClient.call(method, path, { body: withObject(method, path, body), headers });
    },
    async events(connectionId) {
      const rows = await api.db("outbox").where({ aggregateid: connectionId }).orderBy("aggregate_seq");
      return rows.map((row) => JSON.parse(row.payload));
    },
    async stop() {
      await finder?.close();
      await api.stop();
    },
  };
}

/** Adds an object's namespace and name to a declaration. The name is derived from the object's uid. */
function withObject(method: string, path: string, body: unknown): unknown {
  if (method !== "PUT" || typeof body !== "object" || body === null) return body;
  const uid = decodeURIComponent(path.split("/").at(-1) ?? "").replace(/^[^.]*\./, "");
  const name = uid.toLowerCase().replaceAll(/[^a-z0-9-]/g, "-") || "none";
  return { object: { namespace: "default", name }, ...body };
}

/** Returns the epoch of a cluster's leader. If there is no leader, claims leadership first. */
export async function leaderOf(deps: Pick<TestApi, "db" | "clock">, clusterId: string): Promise<number> {
  const known = await deps.db("operator_clusters").where("cluster_id", clusterId).first("epoch");
  return known?.epoch ?? claimLeadership(deps, { clusterId });
}

/** Runs this API from before the first to after the last test of a file. */
export function platformApi(options?: Parameters<typeof startPlatformApi>[0]): PlatformApi {
  const api = {} as PlatformApi;
  beforeAll(async () => {
    Object.assign(api, await startPlatformApi(options));
  });
  afterAll(() => api.stop());
  return api;
}

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
  api: PlatformApi,
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
  api: PlatformApi,
  scope: string[] = ["data:read"],
  given?: { person: Person; platform: TestPlatform },
) {
  const pending = await requested(api, {}, given);
  const answer = await approve(pending.person, pending.requestId, scope);
  if (answer.status !== 200) throw new Error(answer.text);
  return { ...pending, certId: String(answer.body.cert_id), answer };
}
