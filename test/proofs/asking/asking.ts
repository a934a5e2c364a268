import { hash } from "node:crypto";
import { requestHash } from "../../../src/protocol/documents/context_binding.ts";
import { canonicalJson } from "../../../src/protocol/encoding/canonical.ts";
import type { Person, TestApi } from "../../support/api.ts";
import type { HttpAnswer } from "../../support/http.ts";
import { createKey } from "../../support/narrow_keys.ts";
import { createAgent } from "../../support/platform_world.ts";
import { type Application, callsOf, type ProofApi } from "../application.ts";
import { BOUND_SCOPE, operationOf, type Wish } from "../bound_operations.ts";

export const ASKING = "/v1/service/access-requests";

/** An application whose agent has a key of its own and may only read. */
export type AskingAgent = Application & {
  /** Calls the API with the agent's key. */
  asAgent(method: string, path: string, body?: unknown): Promise<HttpAnswer>;
  /** Lets `present` refuse an operation, and returns its evaluation id. */
  refused(operation?: Wish): Promise<string>;
  /** Asks for {@link BOUND_SCOPE} with the agent's key. */
  ask(evaluationId: string, fields?: AskFields): Promise<HttpAnswer>;
};

export type AskFields = { scopes?: string[]; until?: string; context?: object; subject?: object };

/** Returns an agent that may only read, with its own key. */
export async function askingAgent(world: ProofApi, member?: Person): Promise<AskingAgent> {
  return withKey(world.api, await world.application(["data:read"], member));
}

/** Returns another agent of the same connection, with its own key. */
export async function otherAgent({ api }: ProofApi, app: Application): Promise<AskingAgent> {
  const agentId = await createAgent(api.client(), app.platform, { name: "other" });
  return withKey(api, { ...app, agentId, ...callsOf(api.client(), app.platform, agentId) });
}

async function withKey(api: TestApi, app: Application): Promise<AskingAgent> {
  const { body } = await createKey(api, app.platform, { role: "agent", agent_id: app.agentId });
  const headers = { "x-service-api-key": String(body.api_key) };
  const asAgent: AskingAgent["asAgent"] = (method, path, body) =>
    api.client().call(method, path, { body, headers, csrf: false });
  return {
    ...app,
    asAgent,
    async refused(operation) {
      const path = `/v1/service/connections/${app.platform.connectionId}/agents/${app.agentId}/present`;
      const wish = { operation: operation ?? operationOf(app), required_scope: BOUND_SCOPE };
      return evaluationOf(await asAgent("POST", path, wish));
    },
    ask: (evaluationId, { scopes = [BOUND_SCOPE], until, context, subject } = {}) =>
      asAgent("POST", ASKING, {
        ...(subject && { subject }),
        denial: { evaluation_id: evaluationId },
        requested_access: { scopes, ...(until !== undefined && { requested_until: until }) },
        context: { purpose: "Refund order 7", ...context },
      }),
  };
}

export function evaluationOf({ body, text }: HttpAnswer): string {
  if (typeof body.evaluation_id !== "string") throw new Error(text);
  return body.evaluation_id;
}

export type Task = { id: string; status: string; status_endpoint: string; links: Record<string, string> };
export type Result = { approval: { id: string; scopes: string[]; approved_until?: string } };

export const taskOf = ({ body, text }: HttpAnswer): Task => {
  if (body.task === undefined) throw new Error(text);
  return body.task as Task;
};
export const resultOf = ({ body }: HttpAnswer) => body.result as Result | undefined;

/** Returns an operation with a payload. */
export function withPayload(app: Application, payload: unknown): Wish {
  const digest = hash("sha256", canonicalJson(payload), "buffer");
  const operation = operationOf(app);
  const { action = "", resource_id = "", requested_path = "" } = operation;
  const named = { required_scope: BOUND_SCOPE, operation: action, resource_id, requested_path };
  return {
    ...operation,
    payload_digest: `sha256:${digest.toString("hex")}`,
    request_hash: `sha256:${Buffer.from(requestHash({ ...named, payload_digest: digest })).toString("hex")}`,
  };
}
