import { randomUUID } from "node:crypto";
import type { HttpAnswer } from "../support/http.ts";
import { errorCode, type Person, type PlatformApi } from "../support/platform_world.ts";

/** Where owners accept namespaces. */
export const BINDINGS = "/v1/service/namespace-bindings";

/** An operator's id of something that nobody has declared. */
export const newId = (cluster = "c1") => `${cluster}.${randomUUID()}`;

/** The status of an answer and the code of its error. */
export const seen = (answer: HttpAnswer) => [answer.status, errorCode(answer)];

/** What namespaces and their owners ask an API; `owner` is who it is about at the moment. */
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
