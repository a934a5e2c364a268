import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import type { OperatorOptions, Person, TestApi } from "../support/api.ts";
import type { HttpAnswer } from "../support/http.ts";

export const newUid = () => `c1.${randomUUID()}`;
export const path = (id: string) => `/internal/v1/platforms/${encodeURIComponent(id)}`;
export const agentPath = (id: string) => `/internal/v1/agents/${encodeURIComponent(id)}`;

/** Returns the body with which the operator declares a person's platform. */
export function declaration(person: Person, fields: Record<string, unknown> = {}) {
  return {
    account_email: person.email,
    name: "Shop",
    surface_type: "agentic_api",
    default_allowed_scopes: ["data:read", "data:share"],
    ...fields,
  };
}

export type Declared = {
  person: Person;
  id: string;
  answer: HttpAnswer;
  credentials: Record<string, string>;
};

export function declarations(api: TestApi) {
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
