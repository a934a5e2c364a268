import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

/** The member that this server adds to each object of a response, and its value. */
export const ADDED = { name: "added_later", value: "by a later version" };
/** Replaces each value from a list of known values. */
export const UNKNOWN = "value_of_a_later_version";
/** The decision itself stays, because the main job depends on it. */
const KEPT = new Set(["decision"]);

export type LaterVersion = { url: string; stop(): Promise<void> };

/**
 * Starts a server that passes calls on to the service at `base`, and changes the responses as a later version
 * may do. Adds a member to each object. If `document` lists the known texts of a member, replaces its text
 * with an unknown one.
 */
export async function startLaterVersion(base: string, document: unknown): Promise<LaterVersion> {
  const open = openMembers(document);
  const server = createServer((request, response) => {
    passOn(base, request, response, (body) => changed(body, open)).catch((error: Error) =>
      response.destroy(error),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

type Change = (body: unknown) => unknown;

async function passOn(base: string, request: IncomingMessage, response: ServerResponse, change: Change) {
  const { host: _, connection: _connection, "content-length": _length, ...headers } = request.headers;
  const body = await buffer(request);
  const answer = await fetch(new URL(request.url ?? "/", base), {
    method: request.method ?? "GET",
    headers: { ...(headers as Record<string, string>), "accept-encoding": "identity" },
    redirect: "manual",
    ...(body.length > 0 && { body }),
  });
  const text = await answer.text();
  const cookies = answer.headers.getSetCookie();
  const kept = [...answer.headers].filter(([name]) => !/^(set-cookie|content-length|connection)$/.test(name));
  response.writeHead(answer.status, { ...Object.fromEntries(kept), "set-cookie": cookies });
  const isJson = answer.headers.get("content-type")?.includes("application/json") ?? false;
  response.end(isJson ? JSON.stringify(change(JSON.parse(text))) : text);
}

/** Returns the names of members whose known texts the document lists. */
function openMembers(document: unknown): Set<string> {
  const names = new Set<string>();
  JSON.stringify(document, (name, value) => {
    const known: unknown = value?.["x-extensible-enum"] ?? value?.items?.["x-extensible-enum"];
    if (Array.isArray(known) && typeof known[0] === "string" && !KEPT.has(name)) names.add(name);
    return value;
  });
  return names;
}

function changed(value: unknown, open: ReadonlySet<string>, name = ""): unknown {
  if (Array.isArray(value)) return value.map((item) => changed(item, open, name));
  if (typeof value === "string") return open.has(name) ? UNKNOWN : value;
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).map(([key, member]) => [key, changed(member, open, key)]);
  return { ...Object.fromEntries(members), [ADDED.name]: ADDED.value };
}
