import { createNames, type Names } from "../../input/names.ts";
import { rootOf } from "../../input/url.ts";
import type { CookieName, Route } from "../../route.ts";
import { createCookieNames } from "../cookies.ts";
import { MAX_REQUEST_ID } from "../request_head.ts";
import { operationOf } from "./operation.ts";
import { errorSchema } from "./responses.ts";
import type { Json } from "./schema.ts";

/** The base URL and the version of the service, and its name in paths and headers (`word`). */
export type DocumentInfo = { baseUrl: string; word: string; version: string };

/** Descriptions of the document's tags, in display order. */
const tags: Record<string, string> = {
  auth: "Sign-in by e-mailed code, onboarding, sessions",
  platforms: "The products being built: registration returns an API key and two secrets",
  organization: "Members of an organization, their roles, its domains, and what its members did",
  connections: "A platform's connection: keys, callback URL, agents, and presenting their proofs",
  keys: "The calling API key",
  delegations: "Requesting, granting and revoking authority",
  revocations: "Signed lists of revoked certificates",
  challenge: "The challenge that a proof answers",
  verify: "The decision",
  invocations: "The outcome of an allowed operation",
  receipts: "The record of a decision",
  audit: "The history of proofs",
  scopes: "The vocabulary of scopes",
  registry: "Public keys of root identities, and published platforms",
  access: "OpenID AuthZEN 1.0",
  ".well-known": "Discovery",
  "ext-auth": "The call that gateways make before they pass a request on",
};

const DESCRIPTION = `Issues, stores and checks authority that people lend to AI agents.

Every response has the header \`X-Request-Id\`: the request's own, or a new one.
A call that uses no \`Idempotency-Key\` ignores it, and answers with \`Idempotency-Key-Ignored: true\`.
With a session, the roles in \`x-roles\` may call an operation. Without \`x-roles\`, every role may.`;

/**
 * Returns the full OpenAPI 3.1 document of the public operations, without the operator's operations. Paths,
 * headers and cookies contain the service's name, not the aliases of this name. Each operation contains all
 * its parts itself. The API serves this document in the shorter form of `publishedDocument`.
 */
export function openApiDocument(routes: readonly Route[], { baseUrl, word, version }: DocumentInfo): Json {
  const names = createNames(word);
  const paths: Record<string, Json> = {};
  const used = new Set<string>();
  for (const route of routes) {
    if (route.access === "operator") continue;
    const [path = route.path] = names.paths(route.path.replace("*}", "}"));
    const tag = tagOf(route.path);
    used.add(tag);
    paths[path] = {
      ...paths[path],
      [route.method.toLowerCase()]: { ...operationOf(route, names), tags: [tag] },
    };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Deputize",
      version,
      description: `${DESCRIPTION}\nWith a session, the header \`${names.header("X-Service-Account")}\` names the organization that the person acts for.`,
      contact: { name: "Deputize maintainers", url: "https://deputize.io" },
      license: { name: "Apache 2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: rootOf(baseUrl) }],
    tags: [...used].sort(byPlace).map((name) => ({ name, description: tags[name] ?? name })),
    paths,
    components: {
      schemas: { Error: errorSchema() },
      headers: { RequestId: requestIdHeader },
      securitySchemes: securitySchemes(names, createCookieNames(names, baseUrl)),
    },
  };
}

const requestIdHeader = {
  description: "The request's own X-Request-Id, or a new one",
  required: true,
  schema: { type: "string", minLength: 1, maxLength: MAX_REQUEST_ID },
};

function securitySchemes(names: Names, cookieName: (name: CookieName) => string): Json {
  const cookie = (name: "session" | "refresh", description: string) => ({
    type: "apiKey",
    in: "cookie",
    name: cookieName(name),
    description,
  });
  const header = (name: string, description: string) => ({
    type: "apiKey",
    in: "header",
    name: names.header(name),
    description,
  });
  return {
    session: cookie("session", "A signed-in person; 15 minutes, then refresh"),
    refresh: cookie("refresh", "Renews a session; can be used once"),
    csrf: header("X-Service-CSRF", `The value of the cookie ${cookieName("csrf")}`),
    api_key: header("X-Service-API-Key", "The application behind a connection"),
    bearer: { type: "http", scheme: "bearer", description: "The API key, as AuthZEN clients send it" },
  };
}

function tagOf(path: string): string {
  const segments = path.split("/").filter((segment) => segment !== "" && segment !== "v1");
  return (segments[0] === "service" ? segments[1] : segments[0]) ?? "service";
}

function byPlace(a: string, b: string): number {
  const order = Object.keys(tags);
  const place = (tag: string) => (order.includes(tag) ? order.indexOf(tag) : order.length);
  return place(a) - place(b);
}
