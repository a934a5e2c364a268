import { randomUUID } from "node:crypto";
import type { HttpAnswer } from "../support/http.ts";
import { errorCode, type Person, type PlatformApi } from "../support/platform_world.ts";

/** Path at which owners accept namespaces. */
export const BINDINGS = "/v1/service/namespace-bindings";

/** Returns a new external id, as an operator would use it. */
export const newId = (cluster = "c1") => `${cluster}.${randomUUID()}`;

/** Returns an answer's status and error code. */
export const seen = (answer: HttpAnswer) => [answer.status, errorCode(answer)];

/** Returns functions that call the API as an operator and as the current `owner`. */
export function namespaces(api: PlatformApi, owner: () => Person) {
  /** Declares the Platform `name` of a namespace. */
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
