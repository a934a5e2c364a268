import { afterAll, beforeAll, expect } from "vitest";
import { type Person, startApi, type TestApi } from "../support/api.ts";
import type { HttpAnswer, HttpClient } from "../support/http.ts";
import {
  approve,
  createAgent,
  errorCode,
  registerPlatform,
  selfRequest,
  type TestPlatform,
} from "../support/platform_world.ts";

type ReplicaOptions = Parameters<typeof startApi>[0];

/** A person's application: a platform with an API key and an agent, and functions for its calls. */
export type Application = {
  person: Person;
  platform: TestPlatform;
  agentId: string;
  certId: string;
  post(path: string, body?: unknown, more?: Record<string, string>): Promise<HttpAnswer>;
  present(fields?: Record<string, unknown>): Promise<HttpAnswer>;
  proof(): Promise<unknown>;
  verify(proof: unknown, fields?: Record<string, unknown>): Promise<HttpAnswer>;
};

/** A running API with the proof routes. Its pools have the production settings. */
export type ProofApi = {
  api: TestApi;
  /** Creates an application for `member`, if given. It has a certificate unless `approvedScope` is empty. */
  application(approvedScope?: string[], member?: Person): Promise<Application>;
};

/** Starts an API before the first test in a file, and stops it after the last test. */
export function proofApi(options?: ReplicaOptions): ProofApi {
  const world = { application } as ProofApi;

  beforeAll(async () => {
    world.api = await startApi(options);
  });

  afterAll(() => world.api.stop());

  async function application(
    approvedScope = ["data:read", "payments:send"],
    member?: Person,
  ): Promise<Application> {
    const person = member ?? (await world.api.person());
    const platform = await registerPlatform(person, {}, member && "/v1/service/platforms");
    const client = world.api.client();
    const agentId = await createAgent(client, platform);
    return {
      person,
      platform,
      agentId,
      certId: approvedScope.length > 0 ? await certify({ person, platform }, approvedScope) : "",
      ...callsOf(client, platform, agentId),
    };
  }

  return world;
}

/** Returns functions for the calls that an application makes with its API key for one of its agents. */
export function callsOf(
  client: HttpClient,
  { apiKey, connectionId }: Pick<TestPlatform, "apiKey" | "connectionId">,
  agentId: string,
): Pick<Application, "post" | "present" | "proof" | "verify"> {
  const headers = { "x-service-api-key": apiKey };
  const post: Application["post"] = (path, body, more = {}) =>
    client.post(path, body, { headers: { ...headers, ...more }, csrf: false });
  const present: Application["present"] = async (fields = {}) => {
    const { body } = await post("/v1/service/challenge");
    const path = `/v1/service/connections/${connectionId}/agents/${agentId}/present`;
    return post(path, { challenge: body.challenge, ...fields });
  };
  return {
    post,
    present,
    proof: async () => (await present()).body.proof_bundle,
    verify: (proof, fields = {}) =>
      post("/v1/service/verify", { proof_bundle: proof, required_scope: "data:read", ...fields }),
  };
}

/** Grants an application a scope, and returns the certificate's id. `asked`: more fields of the request. */
export async function certify(
  { person, platform }: Pick<Application, "person" | "platform">,
  approvedScope: string[],
  asked: Record<string, unknown> = {},
): Promise<string> {
  const requestId = await selfRequest(person, platform.connectionId, asked);
  const { status, body } = await approve(person, requestId, approvedScope);
  expect(status).toBe(200);
  return String(body.cert_id);
}

/** Sets whether an application's AuthZEN questions without a proof get registry answers. */
export async function answerFromRegistry({ person, platform }: Application, answers = true): Promise<void> {
  const path = `/v1/service/connections/${platform.connectionId}`;
  const { status } = await person.client.call("PATCH", path, { body: { registry_answers: answers } });
  expect(status).toBe(200);
}

export async function registryApplication(world: ProofApi, approvedScope?: string[]): Promise<Application> {
  const app = await world.application(approvedScope);
  await answerFromRegistry(app);
  return app;
}

export async function decisionsOf({ api }: ProofApi, { person }: Application): Promise<number> {
  const rows = await api.db("audit_events").where({ account_id: person.accountId }).whereNotNull("decision");
  return rows.length;
}

export function errorOf(answer: HttpAnswer): string {
  return `${answer.status} ${errorCode(answer)}`;
}
