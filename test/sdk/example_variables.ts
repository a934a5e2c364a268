import { expect } from "vitest";
import type { Application, ProofApi } from "../proofs/application.ts";

/**
 * Returns the variables of the documentation's examples, as in `values.env`. The application and the agent
 * have keys of their own roles, so an example that uses the other's key fails.
 */
export async function exampleVariables({ api }: ProofApi, { person, platform, agentId, post }: Application) {
  const keys = `/v1/service/connections/${platform.connectionId}/keys`;
  async function keyOf(wish: object): Promise<string> {
    const { status, body, text } = await post(keys, wish);
    expect(status, text).toBe(201);
    return String(body.api_key);
  }
  return {
    BASE_URL: api.url,
    AGENT_KEY: await keyOf({ role: "agent", agent_id: agentId }),
    VERIFY_KEY: await keyOf({ role: "verify" }),
    AGENT_ID: agentId,
    VERIFIER_ID: platform.connectionId,
    WORKSPACE_ID: person.accountId,
  };
}
