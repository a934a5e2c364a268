import { randomUUID } from "node:crypto";
import { declaration } from "../platforms/declarations.ts";
import type { Person, TestApi } from "../support/api.ts";
import type { HttpAnswer } from "../support/http.ts";
import type { TestPlatform } from "../support/platform_world.ts";
import { lockConnection, type Owned, type RaceRow, removeConnection, type Sql } from "./races.ts";

export const newId = () => `c1.${randomUUID()}`;

export type DeclaredScene = Owned & {
  api: TestApi;
  id: string;
  agentId: string;
  delegationId: string;
  prefix: string;
  declare(fields: object): Promise<HttpAnswer>;
  putAgent(id: string, name?: string): Promise<HttpAnswer>;
  putDelegation(id: string): Promise<HttpAnswer>;
  decide(): Promise<HttpAnswer>;
};

/** Declares a platform, an agent and a delegation of a person, by default a new one. */
export async function declaredScene(api: TestApi, owner?: Person): Promise<DeclaredScene> {
  const person = owner ?? (await api.person());
  const [id, agentId, delegationId] = [newId(), newId(), newId()];
  const object = (name: string) => ({ namespace: "default", name });
  const declare = (fields: object) =>
    api.operator(
      "PUT",
      `/internal/v1/platforms/${id}`,
      declaration(person, { object: object("shop"), ...fields }),
    );
  const putAgent = (agent: string, name = "bot") =>
    api.operator("PUT", `/internal/v1/agents/${agent}`, {
      object: object(agent === agentId ? "bot" : "other"),
      platform_external_id: id,
      name,
      agent_type: "robot",
    });
  const delegation = object(delegationId.slice("c1.".length));
  const putDelegation = (name: string) =>
    api.operator("PUT", `/internal/v1/delegations/${name}`, {
      object: name === delegationId ? delegation : object("another"),
      platform_external_id: id,
      agent_external_id: agentId,
      requested_scope: ["data:read"],
    });
  const { body } = await declare({});
  await putAgent(agentId);
  await putDelegation(delegationId);
  const platform = {
    platformId: String(body.platform_id),
    connectionId: String(body.connection_id),
    apiKey: "",
  } as TestPlatform;
  const decide = () =>
    api.operator("POST", `/internal/v1/delegations/${delegationId}/decision`, { object: delegation });
  const prefix = String(body.api_key_prefix);
  return {
    api,
    person,
    platform,
    id,
    agentId,
    delegationId,
    prefix,
    declare,
    putAgent,
    putDelegation,
    decide,
  };
}

export function declaredRace(
  title: string,
  gets: string[],
  call: (scene: DeclaredScene) => Promise<HttpAnswer>,
  meanwhile: (scene: DeclaredScene) => Sql = removeConnection,
): RaceRow {
  return {
    title,
    gets,
    async prepare(api) {
      const scene = await declaredScene(api);
      return { holds: lockConnection(scene), meanwhile: meanwhile(scene), call: () => call(scene) };
    },
  };
}

/** The cluster user who decides in {@link decidedScene}. */
export const ANN = { cluster: "c1", username: "ann@example.test" };

/**
 * Declares the same as {@link declaredScene}. {@link ANN} is linked to the person, and has decided on the
 * Delegation. Its spec names no requester if `requestedBy` is `null`.
 */
export async function decidedScene(
  api: TestApi,
  {
    decision = "Approved",
    requestedBy = "ed@example.test",
    person,
  }: { decision?: string | undefined; requestedBy?: string | null; person?: Person } = {},
): Promise<DeclaredScene> {
  const scene = await declaredScene(api, person);
  await scene.person.client.post("/v1/service/cluster-approvers", ANN);
  const uid = scene.delegationId.slice("c1.".length);
  api.clusters.delegations.set(`default/${uid}`, {
    metadata: { uid, generation: 1, creationTimestamp: "2026-01-01T00:00:00Z" },
    spec: {
      platformRef: { name: "shop" },
      agentRef: { name: "bot" },
      scopes: ["data:read"],
      ...(requestedBy && { requestedBy }),
    },
    status: {
      approval: {
        decision,
        approvedScopes: decision === "Approved" ? ["data:read"] : [],
        approver: { username: ANN.username },
        observedGeneration: 1,
      },
    },
  });
  return scene;
}
