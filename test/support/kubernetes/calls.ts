import { Agent, request } from "undici";
import type { Kubernetes, KubernetesObject, KubernetesUser } from "./server.ts";

/** Where an API server is, and its administrator's token. */
export type Address = Pick<Kubernetes, "url" | "ca" | "adminToken">;

/** Calls of an API server: as its administrator, as whom that one impersonates, and with other tokens. */
export function callsOf({ url, ca, adminToken }: Address): Pick<Kubernetes, "call" | "as" | "withToken"> {
  const dispatcher = new Agent({ connect: { ca }, keepAliveTimeout: 1000 });
  const withToken: Kubernetes["withToken"] =
    (token, as) =>
    async (method, path, body, contentType = "application/json") => {
      const answer = await request(new URL(path, url), {
        method,
        dispatcher,
        headers: {
          authorization: `Bearer ${token}`,
          "content-type": contentType,
          ...(as !== undefined && impersonating(as)),
        },
        ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      });
      return { status: answer.statusCode, body: (await answer.body.json()) as KubernetesObject };
    };
  return { call: withToken(adminToken), as: (user) => withToken(adminToken, user), withToken };
}

function impersonating({ name, group, uid }: KubernetesUser): Record<string, string> {
  return {
    "impersonate-user": name,
    ...(group !== undefined && { "impersonate-group": group }),
    ...(uid !== undefined && { "impersonate-uid": uid }),
  };
}
