import { hidesDotSegment } from "../../protocol/constraints/resource_path.ts";
import { canonicalBytes } from "../../protocol/encoding/canonical.ts";
import { ProtocolError } from "../../protocol/encoding/errors.ts";
import type { Verifier } from "../operation.ts";
import { frozenCopy, payloadDigest } from "../payload.ts";
import { demandScope } from "../question.ts";

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
  verifier?: Verifier;
  signal?: AbortSignal;
};

/** A request, ready to send: a copy that later changes to the caller's objects do not affect. */
export type ReadRequest = {
  url: URL;
  method: string;
  headers: Headers;
  body: Uint8Array<ArrayBuffer> | undefined;
  digest: Uint8Array | undefined;
};

/** Reads a request. Throws TypeError if no guard could bind it: for its scope, path, ids, or body. */
export function readRequest(address: string | URL, init: FetchInit): ReadRequest {
  demandScope(init.scope);
  const { invocationId, sessionId } = init;
  for (const [name, id] of Object.entries({ invocationId, sessionId })) {
    if (id !== undefined && !/^[\x21-\x7e]{1,256}$/.test(id)) {
      throw new TypeError(`${name}: must have 1 to 256 visible ASCII characters`);
    }
  }
  const { body, digest, type } = readBody(init.body);
  const headers = new Headers(init.headers);
  if (type !== undefined && !headers.has("content-type")) headers.set("content-type", type);
  const method = (init.method ?? (body === undefined ? "GET" : "POST")).toUpperCase();
  return { url: readUrl(address), method, headers, body, digest };
}

function readUrl(address: string | URL): URL {
  const url = new URL(address);
  if (!/^https?:$/.test(url.protocol)) throw new TypeError("url: must start with https or http");
  if (hidesDotSegment(url.pathname)) throw new TypeError("url: must not hide a . or .. segment");
  url.hash = "";
  return url;
}

type ReadBody = Pick<ReadRequest, "body" | "digest"> & { type: string | undefined };

function readBody(given: unknown): ReadBody {
  if (typeof given === "string") {
    throw new TypeError("body: must be plain data or bytes. Pass the object itself, not its JSON");
  }
  try {
    const payload = frozenCopy(given);
    const digest = payloadDigest(payload);
    if (payload === undefined) return { body: undefined, digest, type: undefined };
    if (payload instanceof Uint8Array) {
      return { body: new Uint8Array(payload), digest, type: "application/octet-stream" };
    }
    return { body: new Uint8Array(canonicalBytes(payload)), digest, type: "application/json" };
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    throw new TypeError("body: has no canonical JSON", { cause: error });
  }
}
