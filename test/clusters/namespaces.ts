import { randomUUID } from "node:crypto";
import type { Person, TestApi } from "../support/api.ts";
import type { HttpAnswer } from "../support/http.ts";
import { errorCode } from "../support/platform_world.ts";

export const BINDINGS = "/v1/service/namespace-bindings";

export const newId = (cluster = "c1") => `${cluster}.${randomUUID()}`;

export const seen = (answer: HttpAnswer) => [answer.status, errorCode(answer)];

export function namespaces(api: TestApi, owner: () => Person) {
  const declare = (
    namespace: string,
    { id = newId(), name = "shop", email = owner().email, ...fields }: Record<string, unknown> = {},
  ) =>
    api.operator(
      "PUT",
      `/internal/v1/platforms/${String(id)}`,
      {
        account_email: email,
        object: { namespace, name },
        name: "Shop",
        surface_type: "agentic_api",
        default_allowed_scopes: ["data:read", "payments:send"],
        ...fields,
      },
      { cluster: String(id).split(".")[0] ?? "" },
    );
  const accept = (place: string, body: object = {}, who = owner()) =>
    who.client.call("PUT", `${BINDINGS}/${place}`, { body });
  return { declare, accept };
}
