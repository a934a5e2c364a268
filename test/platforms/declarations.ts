import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import type { HttpAnswer } from "../support/http.ts";
import type { OperatorOptions, Person, PlatformApi } from "../support/platform_world.ts";

/** Returns a new external id that no call has used yet. */
export const newUid = () => `c1.${randomUUID()}`;
/** Returns the path for declaring a platform. */
export const path = (id: string) => `/internal/v1/platforms/${encodeURIComponent(id)}`;
/** Returns the path for declaring an agent. */
export const agentPath = (id: string) => `/internal/v1/agents/${encodeURIComponent(id)}`;

/** Returns a declaration of a person's platform, as the operator sends it. */
export function declaration(person: Person, fields: Record<string, unknown> = {}) {
  return {
    account_email: person.email,
    name: "Shop",
    surface_type: "agentic_api",
    default_allowed_scopes: ["data:read", "data:share"],
    ...fields,
  };
}

/** A declared platform of a new person. */
export type Declared = {
  person: Person;
  id: string;
  answer: HttpAnswer;
  credentials: Record<string, string>;
};

/** Returns helpers for the operator's calls to an API. */
export function declarations(api: PlatformApi) {
  const put = (id: string, body: unknown, options?: OperatorOptions): Promise<HttpAnswer> =>
    api.operator("PUT", path(id), body, options);

  async function declared(fields: Record<string, unknown> = {}): Promise<Declared> {
    const person = await api.person();
    const id = newUid();
    const answer = await put(id, declaration(person, fields));
    expect(answer.status).toBe(200);
    return { person, id, answer, credentials: answer.body.credentials as Record<string, string> };
  }

  const list = (answer: HttpAnswer, apiKey: string | undefined) =>
    api.client().get(`/v1/service/connections/${String(answer.body.connection_id)}/agents`, {
      headers: { "x-service-api-key": apiKey ?? "" },
    });
  return { put, declared, list };
}
