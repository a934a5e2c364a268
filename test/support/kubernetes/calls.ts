import { setTimeout as sleep } from "node:timers/promises";
import { Agent, request } from "undici";
import type { Kubernetes, KubernetesObject, KubernetesUser } from "./server.ts";

/** Where an API server is, and its administrator's token. */
export type Address = Pick<Kubernetes, "url" | "ca" | "adminToken">;

/**
 * What an API server answers for a moment after a definition was changed, while it reads its objects again.
 * Nothing was done then; other clients come back, too.
 */
const PUT_OFF = "storage is (re)initializing";
const COME_BACK_MS = 50;

/**
 * Calls of an API server: as its administrator, as whom that one impersonates, and with other tokens. One
 * that is put off for a change of a definition is repeated.
 */
export function callsOf({ url, ca, adminToken }: Address): Pick<Kubernetes, "call" | "as" | "withToken"> {
  const dispatcher = new Agent({ connect: { ca }, keepAliveTimeout: 1000 });
  const withToken: Kubernetes["withToken"] =
    (token, as) =>
    async (method, path, body, contentType = "application/json") => {
      const headers = {
        authorization: `Bearer ${token}`,
        "content-type": contentType,
        ...(as !== undefined && impersonating(as)),
      };
      const text = typeof body === "string" ? body : JSON.stringify(body);
      for (;;) {
        const sent = { method, dispatcher, headers, ...(body !== undefined && { body: text }) };
        const answer = await request(new URL(path, url), sent);
        const status = answer.statusCode;
        const object = (await answer.body.json()) as KubernetesObject;
        if (status !== 429 || object.message !== PUT_OFF) return { status, body: object };
        await sleep(COME_BACK_MS);
      }
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
