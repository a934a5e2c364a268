import { setTimeout as sleep } from "node:timers/promises";
import { Agent, request } from "undici";
import type { Kubernetes, KubernetesObject, KubernetesUser } from "./server.ts";

export type Address = Pick<Kubernetes, "url" | "ca" | "adminToken">;

/**
 * An API server rejects calls with this message while it reloads objects after a definition changed. The call
 * had no effect, and clients are expected to repeat it.
 */
const PUT_OFF = "storage is (re)initializing";
const COME_BACK_MS = 50;

/** Returns functions that repeat a call that was rejected because a custom resource definition changed. */
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
        const object = objectOf(await answer.body.text());
        if (status !== 429 || object.message !== PUT_OFF) return { status, body: object };
        await sleep(COME_BACK_MS);
      }
    };
  return { call: withToken(adminToken), as: (user) => withToken(adminToken, user), withToken };
}

/** An API server answers unknown paths in plain text, and those of a new definition before it serves them. */
function objectOf(text: string): KubernetesObject {
  return text.startsWith("{") ? JSON.parse(text) : { message: text.trim() };
}

function impersonating({ name, group, uid }: KubernetesUser): Record<string, string> {
  return {
    "impersonate-user": name,
    ...(group !== undefined && { "impersonate-group": group }),
    ...(uid !== undefined && { "impersonate-uid": uid }),
  };
}
