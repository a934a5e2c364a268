import { randomUUID } from "node:crypto";
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { Agent, request } from "undici";
import { createAuthority, issueCertificate } from "../../../keyvault/tls/authority.ts";
import { loadSchemas } from "../../../src/operator/schema/schemas.ts";
import { createFakeObjects, type Place, Refusal, type StoredObject } from "./fake_objects.ts";
import type { KubernetesCalls, KubernetesObject } from "./server.ts";

/** A response that replaces the fake's own. `silence` sends none. A promise delays the request. */
export type FakeFault =
  | "silence"
  | Promise<void>
  | { status: number; headers?: Record<string, string>; body?: object };

/** An API server in memory. It validates applied objects of our kinds, but has no roles and no admission. */
export type FakeKubernetes = KubernetesCalls & {
  /** All requests except those of `call`. Their paths contain the query. */
  requests: { method: string; path: string }[];
  /** Sets the faults for requests that arrive from now on. Without a rule, requests have no faults. */
  setRule(rule?: (method: string, path: string) => FakeFault | undefined): void;
  /** Ends every open watch. */
  endWatches(): void;
  stop(): Promise<void>;
};

type Call = { method: string; place: Place; query: URLSearchParams; body: StoredObject; type: string };

const schemas = await loadSchemas();
const validity = { notBefore: new Date(Date.now() - 60_000), notAfter: new Date(Date.now() + 3_600_000) };
const authority = await createAuthority(validity);
const identity = await issueCertificate(authority, { kind: "server", names: ["127.0.0.1"] }, validity);

/** Starts the server on a free loopback port. Every request must have the administrator's token. */
export async function startFakeKubernetes(): Promise<FakeKubernetes> {
  const adminToken = randomUUID();
  const objects = createFakeObjects();
  const namespace = { metadata: { name: "kube-system" } } as StoredObject;
  objects.create({ collection: "/api/v1/namespaces", isStatus: false }, namespace);
  const watches = new Set<ServerResponse>();
  const requests: FakeKubernetes["requests"] = [];
  let rule: (method: string, path: string) => FakeFault | undefined = () => undefined;

  function faultOf({ method = "", url = "", headers }: IncomingMessage): FakeFault | undefined {
    if (headers["x-own-call"] !== undefined) return undefined;
    requests.push({ method, path: decodeURIComponent(url) });
    return rule(method, url);
  }

  function answerTo({ method, place, query, body, type }: Call): object {
    switch (method) {
      case "POST":
        return objects.create(place, body);
      case "PUT":
        return objects.replace(place, body);
      case "PATCH":
        return type.includes("apply-patch") ? apply(place, body) : objects.patch(place, body);
      case "DELETE":
        return objects.remove(place, body.preconditions as object | undefined) ?? {};
      default:
        return place.name === undefined ? listOf(place, query) : objects.get(place);
    }
  }

  function apply(place: Place, body: StoredObject): StoredObject {
    const known = objects.list(place).find(({ metadata }) => metadata.name === place.name);
    const { violations } = schemas.validate(body, known);
    if (violations !== undefined) throw new Refusal(422, "Invalid");
    return objects.apply(place, body);
  }

  function listOf(place: Place, query: URLSearchParams): object {
    return { metadata: { resourceVersion: String(objects.version()) }, items: objects.list(place, query) };
  }

  function openWatch({ place, query }: Call, response: ServerResponse): void {
    response.writeHead(200).flushHeaders();
    const since = Number(query.get("resourceVersion"));
    const end = objects.watch(place, query, since, (event) => response.write(`${JSON.stringify(event)}\n`));
    watches.add(response);
    response.on("close", () => {
      watches.delete(response);
      end();
    });
  }

  async function serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const sent = await text(incoming);
    const fault = faultOf(incoming);
    if (fault === "silence") return;
    if (fault instanceof Promise) await fault;
    else if (fault !== undefined) throw Object.assign(new Refusal(fault.status, "Fault"), fault);
    const { method = "", url = "", headers } = incoming;
    if (headers.authorization !== `Bearer ${adminToken}`) throw new Refusal(401, "Unauthorized");
    const body = sent === "" ? {} : JSON.parse(sent);
    const call = { method, ...parsed(url), body, type: headers["content-type"] ?? "" };
    if (call.query.get("watch") === "true") openWatch(call, response);
    else response.end(JSON.stringify(answerTo(call)));
  }

  function refuse(response: ServerResponse, error: unknown): void {
    if (!(error instanceof Refusal)) throw error;
    const { status, headers, body } = error as Refusal & Exclude<FakeFault, "silence" | Promise<void>>;
    response.writeHead(status, headers);
    response.end(JSON.stringify(body ?? { code: status, reason: error.message }));
  }

  const tls = { key: identity.privateKey, cert: identity.certificate };
  const server = createServer(tls, (incoming, response) => {
    serve(incoming, response).catch((error: unknown) => refuse(response, error));
  });
  // The default of 5 s could close a connection at the moment when a busy client uses it again.
  server.keepAliveTimeout = 120_000;
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const dispatcher = new Agent({ connect: { ca: authority.certificate } });

  return {
    url,
    ca: authority.certificate,
    adminToken,
    requests,
    async call(method, path, body, contentType = "application/json") {
      const { statusCode, body: answer } = await request(`${url}${path}`, {
        method: method as "GET",
        dispatcher,
        headers: { authorization: `Bearer ${adminToken}`, "content-type": contentType, "x-own-call": "1" },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      return { status: statusCode, body: (await answer.json()) as KubernetesObject };
    },
    setRule: (next) => {
      rule = next ?? (() => undefined);
    },
    endWatches() {
      for (const response of watches) response.end();
    },
    async stop() {
      await dispatcher.destroy();
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

function parsed(url: string): { place: Place; query: URLSearchParams } {
  const { pathname, searchParams } = new URL(url, "https://fake.test");
  const [, root = "", rest = ""] = /^(\/api\/v1|\/apis\/[^/]+\/[^/]+)\/(.*)$/.exec(pathname) ?? [];
  const parts = rest.split("/");
  const isWithin = parts[0] === "namespaces" && parts.length > 2;
  const [resource = "", name, subresource] = isWithin ? parts.slice(2) : parts;
  const namespace = isWithin ? parts[1] : undefined;
  const place = {
    collection: `${root}/${resource}`,
    ...(namespace !== undefined && { namespace }),
    ...(name !== undefined && { name }),
    isStatus: subresource === "status",
  };
  return { place, query: searchParams };
}
