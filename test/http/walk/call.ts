import { once } from "node:events";
import { request } from "node:http";
import { OPERATOR_TOKEN } from "../../support/api.ts";
import type { Operation, SeenAnswer } from "./openapi_document.ts";
import { SCOPE, type Scene } from "./scene.ts";

/** A request to an operation, before it is sent. */
export type Draft = {
  operation: Operation;
  params: Record<string, string>;
  query: [name: string, value: string][];
  body?: unknown;
  /** Sent unchanged instead of `body`. */
  raw?: string | Buffer;
  /** An array, so that a name may be repeated. */
  headers: [name: string, value: string][];
};

/** Returns the scene's ids by the name of the member that refers to each. */
export function idsOf(scene: Scene): Record<string, string> {
  return {
    connection_id: scene.platform.connectionId,
    platform_id: scene.platform.platformId,
    agent_id: scene.agentId,
    api_key_prefix: scene.keyPrefix,
    request_id: scene.requestId,
    task_id: scene.askedId,
    evaluation_id: scene.evaluationId,
    cert_id: scene.certId,
    receipt_id: scene.receiptId,
    invocation_id: scene.invocationId,
    human_id: scene.person.humanId,
    verifier_id: scene.platform.connectionId,
    verifier_connection_id: scene.platform.connectionId,
    workspace_id: scene.person.accountId,
    challenge: scene.sparedChallenge,
    email: scene.person.email,
    part: "events",
    target: SCOPE,
    approver_id: scene.approverId,
    session_id: scene.sessionId,
    account_id: scene.memberId,
    member_account_id: scene.memberId,
    invitation_id: scene.invitationId,
    domain: scene.domain,
    connect_request: scene.connectRequest,
    proposal_id: scene.proposalId,
    event_id: scene.receiptId,
    delivery_id: scene.deliveryId,
    recovery_id: scene.recoveryId,
    cluster: "c1",
    namespace: "default",
    external_id: `c1.${scene.platform.platformId}`,
    platform_external_id: `c1.${scene.platform.platformId}`,
    account_email: scene.person.email,
  };
}

/** Returns the example request with a scene's ids. Throws for a path parameter that scenes do not have. */
export function draftOf(operation: Operation, scene: Scene): Draft {
  const ids = idsOf(scene);
  const inPath = operation.parameters.filter((parameter) => parameter.in === "path");
  const params = inPath.map(({ name }): [string, string] => {
    const id = ids[name];
    if (id === undefined) throw new Error(`${operation.operationId}: scenes have no ${name}`);
    return [name, id];
  });
  const example = operation.requestBody?.content["application/json"]?.example;
  return {
    operation,
    params: Object.fromEntries(params),
    query: [],
    headers: [],
    ...(example === undefined ? {} : { body: withIds(example, ids) }),
  };
}

/** Returns the same value with the scene's ids in all members that refer to an id. */
function withIds(value: unknown, ids: Record<string, string>): unknown {
  if (Array.isArray(value)) return value.map((each) => withIds(each, ids));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      typeof member === "string" ? (ids[name] ?? member) : withIds(member, ids),
    ]),
  );
}

/** Returns the headers of a caller. `choice` is the caller's position in the operation's list. */
export function credentialsOf({ path, security }: Operation, scene: Scene, choice = 0): Draft["headers"] {
  if (path.startsWith("/internal/")) return operatorHeaders(scene.epoch);
  const { client } = scene.person;
  const cookie = (name: string) => `service_${name}=${client.cookie(`service_${name}`)}`;
  const demanded = Object.keys(security[choice] ?? {});
  const cookies = [
    ...(demanded.includes("session") ? [cookie("session")] : []),
    ...(demanded.includes("refresh") ? [cookie("refresh")] : []),
    ...(demanded.includes("csrf") ? [cookie("csrf")] : []),
  ];
  return [
    ...(cookies.length > 0 ? [["cookie", cookies.join("; ")] as [string, string]] : []),
    ...(demanded.includes("csrf")
      ? [["x-service-csrf", client.cookie("service_csrf") ?? ""] as [string, string]]
      : []),
    ...(demanded.includes("api_key")
      ? [["x-service-api-key", scene.platform.apiKey] as [string, string]]
      : []),
    ...(demanded.includes("bearer")
      ? [["authorization", `Bearer ${scene.platform.apiKey}`] as [string, string]]
      : []),
  ];
}

function operatorHeaders(epoch: number): Draft["headers"] {
  return [
    ["authorization", `Bearer ${OPERATOR_TOKEN}`],
    ["x-deputize-cluster", "c1"],
    ["x-deputize-epoch", String(epoch)],
  ];
}

export async function send(url: string, draft: Draft, headers: Draft["headers"]): Promise<SeenAnswer> {
  const path = draft.operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(draft.params[name] ?? ""),
  );
  const query = new URLSearchParams(draft.query).toString();
  const body = draft.raw ?? (draft.body === undefined ? undefined : JSON.stringify(draft.body));
  const all = [...headers, ...draft.headers];
  const isTyped = all.some(([name]) => name.toLowerCase() === "content-type");
  if (draft.raw === undefined && body !== undefined && !isTyped) {
    all.push(["content-type", "application/json"]);
  }
  return sendRaw(url, {
    method: draft.operation.method,
    path: query === "" ? path : `${path}?${query}`,
    headers: all,
    body,
  });
}

export async function sendRaw(
  url: string,
  asked: { method: string; path: string; headers: Draft["headers"]; body?: string | Buffer | undefined },
): Promise<SeenAnswer> {
  const { host, hostname, port } = new URL(url);
  const length = asked.body === undefined ? [] : [["content-length", String(Buffer.byteLength(asked.body))]];
  const outgoing = request({
    hostname,
    port,
    method: asked.method,
    path: asked.path,
    headers: [["host", host], ...asked.headers, ...length].flat() as string[],
  });
  outgoing.end(asked.body);
  const [response] = await once(outgoing, "response");
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  const seen = new Headers();
  for (const [name, values] of Object.entries(response.headersDistinct as Record<string, string[]>)) {
    for (const value of values) seen.append(name, value);
  }
  return { status: response.statusCode, headers: seen, text: Buffer.concat(chunks).toString() };
}

/** Returns an error's status and code, or only the status of any other response. */
export function errorOf({ status, text }: SeenAnswer): string {
  const code = text.startsWith('{"error"') ? JSON.parse(text).error.code : undefined;
  return code === undefined ? String(status) : `${status} ${code}`;
}
