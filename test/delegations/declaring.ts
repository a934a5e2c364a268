import { expect } from "vitest";
import type { TestApi } from "../support/api.ts";
import type { HttpAnswer } from "../support/http.ts";

/** Declares a platform and an agent. Returns a function that declares a delegation with one constraint. */
export async function declaring(api: TestApi): Promise<(constraint: unknown) => Promise<HttpAnswer>> {
  const { email } = await api.person();
  const uid = () => `c1.${crypto.randomUUID()}`;
  const [platform, agent] = [uid(), uid()];
  const made = [
    await api.operator("PUT", `/internal/v1/platforms/${platform}`, {
      account_email: email,
      name: "Shop",
      surface_type: "agentic_api",
      default_allowed_scopes: ["data:read"],
    }),
    await api.operator("PUT", `/internal/v1/agents/${agent}`, {
      platform_external_id: platform,
      name: "bot",
      agent_type: "api_agent",
    }),
  ];
  expect(made.map(({ status }) => status)).toEqual([200, 200]);
  return (constraint) =>
    api.operator("PUT", `/internal/v1/delegations/${uid()}`, {
      platform_external_id: platform,
      agent_external_id: agent,
      requested_scope: ["data:read"],
      constraints: [constraint],
    });
}
