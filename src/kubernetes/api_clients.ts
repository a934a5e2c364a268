import type {
  AuthenticationV1Api,
  AuthorizationV1Api,
  CoordinationV1Api,
  CoreV1Api,
  CustomObjectsApi,
  HttpLibrary,
  RequestContext,
} from "@kubernetes/client-node";
import type { Verb } from "./cluster_error.ts";

/** The typed clients of `@kubernetes/client-node`. They throw `ClusterError`, and send merge patches. */
export type ApiClients = {
  core: CoreV1Api;
  custom: CustomObjectsApi;
  coordination: CoordinationV1Api;
  authentication: AuthenticationV1Api;
  authorization: AuthorizationV1Api;
  /** Returns the options for a call that ends when `signal` aborts. */
  until(signal: AbortSignal): { httpApi: HttpLibrary };
};

/** One call in the terms of Kubernetes RBAC. Writing a status has the resource `platforms/status`. */
export type ClusterCall = {
  verb: Verb;
  resource: string;
  /** Path below the server's base URL. */
  path: string;
  query: Readonly<Record<string, string>>;
  body: unknown;
};

const VERBS: Record<string, Verb> = { POST: "create", PATCH: "patch", DELETE: "delete" };

/**
 * Creates the clients for the API server at `server`. `send` makes each call and resolves to its JSON body.
 * The library is large, so only a process with a cluster loads it.
 */
export async function createApiClients(
  server: string,
  send: (request: RequestContext, call: ClusterCall) => Promise<string>,
): Promise<ApiClients> {
  const library = await import("@kubernetes/client-node");
  const httpApi: HttpLibrary = {
    send: (request) => new library.Observable(send(request, callOf(request, server)).then(responseOf)),
  };
  const responseOf = (text: string) =>
    new library.ResponseContext(
      200,
      { "content-type": "application/json" },
      { text: async () => text, binary: async () => Buffer.from(text), stream: () => null },
    );
  const baseServer = new library.ServerConfiguration(server, {});
  const configuration = library.createConfiguration({ baseServer, httpApi });
  return {
    core: new library.CoreV1Api(configuration),
    custom: new library.CustomObjectsApi(configuration),
    coordination: new library.CoordinationV1Api(configuration),
    authentication: new library.AuthenticationV1Api(configuration),
    authorization: new library.AuthorizationV1Api(configuration),
    until: (signal) => ({
      httpApi: {
        send(request) {
          request.setSignal(signal);
          return httpApi.send(request);
        },
      },
    }),
  };
}

/** Returns the resource and name in a path without base URL, as the API server parses them. */
export function resourceOfPath(path: string): { resource: string; name: string | undefined } {
  const parts = path.split("/").slice(path.startsWith("/api/") ? 3 : 4);
  const [resource = "unknown", name, subresource] =
    parts[0] === "namespaces" && parts.length > 2 ? parts.slice(2) : parts;
  return { resource: subresource === undefined ? resource : `${resource}/${subresource}`, name };
}

function callOf(request: RequestContext, server: string): ClusterCall {
  const url = new URL(request.getUrl());
  const path = url.pathname.slice(new URL(server).pathname.replace(/\/$/, "").length);
  const { resource, name } = resourceOfPath(path);
  const body = request.getBody();
  return {
    verb: VERBS[request.getHttpMethod()] ?? (name === undefined ? "list" : "get"),
    resource,
    path,
    query: Object.fromEntries(url.searchParams),
    body: typeof body === "string" ? JSON.parse(body) : undefined,
  };
}
