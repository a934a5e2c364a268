import { randomUUID } from "node:crypto";
import { hidesDotSegment } from "../../protocol/constraints/resource_path.ts";
import { canonicalJson } from "../../protocol/encoding/canonical.ts";
import { ProtocolError } from "../../protocol/encoding/errors.ts";
import { frozenCopy, payloadDigest } from "../payload.ts";
import { demandScope } from "../question.ts";
import { demand, demandKnown, type Known } from "../settings.ts";
import { type Ask, readAsk } from "./asking.ts";
import { type AgentVerifier, readVerifier } from "./verifiers.ts";

/** The action behind a request, and the request's parts. */
export type FetchInit = {
  /** The scope that the action requires. */
  scope: string;
  /** Defaults to `POST` with a body, and otherwise to `GET`. */
  method?: string;
  /** Plain data, which is sent as canonical JSON, or bytes, which are sent unchanged. */
  body?: unknown;
  headers?: RequestInit["headers"];
  /** The action's name, exactly as the application binds it. Defaults to the method. */
  action?: string;
  resourceId?: string;
  sessionId?: string;
  /** The id of this one action. A new id by default. Pass the id of an earlier call to repeat that call. */
  invocationId?: string;
  /** The certificate to present, instead of the newest that grants the scope. */
  certId?: string;
  /** The verifier that the caller expects. If the settings name another one, throws `WrongVerifier`. */
  verifier?: AgentVerifier;
  signal?: AbortSignal;
  /** How to ask a person if the action is denied. Without it, the agent asks nobody. */
  ask?: Ask;
};

/** A request, ready to send: a copy that later changes to the caller's objects do not affect. */
export type ReadRequest = Pick<FetchInit, "scope" | "resourceId" | "sessionId" | "certId" | "verifier"> & {
  url: URL;
  method: string;
  headers: Headers;
  body: Uint8Array<ArrayBuffer> | undefined;
  digest: Uint8Array | undefined;
  action: string;
  invocationId: string;
  signal: AbortSignal | undefined;
  ask: Ask | undefined;
  /** The body as canonical JSON. `undefined` without a body, and for bytes. */
  payload: string | undefined;
};

const INIT: Known<FetchInit> = {
  ...{ scope: true, method: true, body: true, headers: true, action: true, resourceId: true },
  ...{ sessionId: true, invocationId: true, certId: true, verifier: true, signal: true, ask: true },
};
const TOKEN = /^[\w!#$%&'*+.^`|~-]+$/;
const UNSENDABLE_METHODS = ["CONNECT", "TRACE", "TRACK"];
/** `fetch` sets or refuses them. A `Host` of the caller would lead the proof to another application. */
const REFUSED_HEADERS = [
  ...["host", "content-length", "transfer-encoding", "connection"],
  ...["keep-alive", "upgrade", "expect"],
];

/**
 * Reads a request. Throws TypeError if no guard could bind it, or if `fetch` could not send it. The message
 * contains no value of the caller, because values can be secret.
 */
export function readRequest(address: string | URL, init: FetchInit): ReadRequest {
  demandKnown("init", init, INIT);
  const { scope, invocationId, sessionId, resourceId, certId, signal } = init;
  demandScope(scope, "scope");
  for (const [name, id] of Object.entries({ invocationId, sessionId })) {
    if (id !== undefined && !/^[\x21-\x7e]{1,256}$/.test(id)) {
      throw new TypeError(`${name}: must have 1 to 256 visible ASCII characters`);
    }
  }
  const { body, digest, payload, type } = readBody(init.body);
  const headers = readHeaders(init.headers);
  if (type !== undefined && !headers.has("content-type")) headers.set("content-type", type);
  const method = readMethod(init.method, body !== undefined);
  if (signal && !(signal instanceof AbortSignal)) throw new TypeError("signal: must be an AbortSignal");
  return {
    ...{ url: readUrl(address), method, headers, body, digest, scope, action: init.action ?? method },
    ...{ invocationId: invocationId ?? randomUUID(), signal: signal ?? undefined },
    ...{ ask: readAsk(init.ask, invocationId), payload },
    ...(sessionId !== undefined && { sessionId }),
    ...(resourceId !== undefined && { resourceId }),
    ...(certId !== undefined && { certId }),
    ...expectedBy(init),
  };
}

function expectedBy({ verifier }: FetchInit): Pick<ReadRequest, "verifier"> {
  if (verifier === undefined) return {};
  const expected = readVerifier(verifier, "verifier");
  demand(expected !== "own", "verifier: must have verifierId and workspaceId");
  return { verifier: expected };
}

function readMethod(given: string | undefined, hasBody: boolean): string {
  const method = String(given ?? (hasBody ? "POST" : "GET")).toUpperCase();
  if (!TOKEN.test(method) || UNSENDABLE_METHODS.includes(method)) {
    throw new TypeError("method: must be one that fetch can send");
  }
  if (hasBody && ["GET", "HEAD"].includes(method)) throw new TypeError("body: GET and HEAD have none");
  return method;
}

function readHeaders(given: RequestInit["headers"]): Headers {
  let headers: Headers;
  try {
    headers = new Headers(given);
  } catch {
    throw new TypeError("headers: each needs a name and a value that HTTP permits");
  }
  const refused = REFUSED_HEADERS.find((name) => headers.has(name));
  if (refused !== undefined) throw new TypeError(`headers: leave out ${refused}, because fetch sets it`);
  return headers;
}

function readUrl(address: string | URL): URL {
  if (!URL.canParse(String(address))) throw new TypeError("url: must be an absolute URL");
  const url = new URL(String(address));
  if (!/^https?:$/.test(url.protocol)) throw new TypeError("url: must start with https or http");
  if (url.username !== "" || url.password !== "") {
    throw new TypeError("url: must not contain a user name or password");
  }
  if (hidesDotSegment(url.pathname)) throw new TypeError("url: must not hide a . or .. segment");
  url.hash = "";
  return url;
}

type ReadBody = Pick<ReadRequest, "body" | "digest" | "payload"> & { type: string | undefined };

function readBody(given: unknown): ReadBody {
  if (typeof given === "string") {
    throw new TypeError("body: must be plain data or bytes. Pass the object itself, not its JSON");
  }
  try {
    const payload = frozenCopy(given);
    const digest = payloadDigest(payload);
    if (payload === undefined) return { body: undefined, digest, payload: undefined, type: undefined };
    if (payload instanceof Uint8Array) {
      const type = "application/octet-stream";
      return { body: new Uint8Array(payload), digest, payload: undefined, type };
    }
    const text = canonicalJson(payload);
    return { body: new TextEncoder().encode(text), digest, payload: text, type: "application/json" };
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    throw new TypeError("body: has no canonical JSON", { cause: error });
  }
}
