/** Uses the types from `openapi-typescript`. Must not compile if one of its wrong uses is accepted. */
export const GENERATED_TYPES_PROGRAM = `
import type { components, operations, paths } from "./types.ts";

type Decided = paths["/v1/service/verify"]["post"]["responses"]["200"]["content"]["application/json"];
export const mayRun = ({ decision, decision_reason }: Decided): boolean =>
  decision === "allow" && decision_reason === "authorized";
export const laterDecision: Decided["decision"] = "a value of a later version";
// @ts-expect-error a decision is a text
export const wrongDecision: Decided["decision"] = 1;

type Verify = NonNullable<operations["verify_proof"]["requestBody"]>["content"]["application/json"];
export const call: Verify = { required_scope: "payments:send", proof_ref: "reference" };
// @ts-expect-error a scope is required
export const scopeless: Verify = { proof_ref: "reference" };

type Refused = operations["verify_proof"]["responses"]["400"]["content"]["application/json"]["error"]["code"];
export const refused: Refused = "invalid_challenge";
export const anyCode: components["schemas"]["Error"]["error"]["code"] = "platform_limit";

export const keyed: operations["create_agent"]["parameters"]["header"] = { "Idempotency-Key": "k-1" };
// @ts-expect-error a decision takes no key
export const unkeyed: operations["verify_proof"]["parameters"]["header"] = { "Idempotency-Key": "k-1" };
`;

/** An application that uses the client from `@hey-api/openapi-ts`. */
export const GENERATED_CLIENT_PROGRAM = `
import { createClient } from "./client/client/index.ts";
import { createAgent, createChallenge, listScopes, presentProof, verifyProof } from "./client/index.ts";

type World = { baseUrl: string; apiKey: string; connectionId: string; agentId: string };

export async function run({ baseUrl, apiKey, connectionId, agentId }: World) {
  const client = createClient({ baseUrl, auth: (auth) => (auth.name === "X-Service-API-Key" ? apiKey : undefined) });
  const { data: vocabulary } = await listScopes({ client });
  const { data: asked } = await createChallenge({ client });
  const { data: proof } = await presentProof({
    client,
    path: { connection_id: connectionId, agent_id: agentId },
    body: { challenge: asked?.challenge ?? "", required_scope: "payments:send" },
  });
  const body = { required_scope: "payments:send", proof_ref: proof?.proof_ref ?? "" };
  const decided = await verifyProof({ client, body });
  const again = await verifyProof({ client, body });
  const stranger = await createChallenge({ client: createClient({ baseUrl, auth: () => "none" }) });
  const create = () =>
    createAgent({
      client,
      path: { connection_id: connectionId },
      headers: { "Idempotency-Key": "k-1" },
      body: { name: "bot", agent_type: "robot" },
    });
  const [first, second] = [await create(), await create()];
  return {
    scopes: (vocabulary?.scopes.length ?? 0) > 0,
    decision: decided.data?.decision,
    again: [again.error?.error.code, again.error?.error.status],
    stranger: [stranger.error?.error.code, stranger.error?.error.status],
    twice: first.data !== undefined && first.data.agent_id === second.data?.agent_id,
  };
}
`;
