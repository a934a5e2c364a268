import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { ApiError } from "../errors.ts";

const VERSIONS: readonly string[] = ["1.0", "1.1"];
const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]+)(?::[0-9]*)?$/;
const HOST_LENGTH = 4;
const ABSOLUTE = /^https?:\/\/([^/?#]*)(.*)$/is;

/**
 * Returns the error of a request that no handler may see, or `undefined`. Of the transfer codings, only
 * `chunked` is supported (RFC 9112 §6.1). With another one, Node calls the handler before it reads the body.
 */
export function headViolation(request: IncomingMessage): ApiError | undefined {
  const { httpVersion, headers } = request;
  if (!VERSIONS.includes(httpVersion)) return new ApiError("invalid_request", "use HTTP/1.1");
  const coding = headers["transfer-encoding"];
  if (coding !== undefined && coding.toLowerCase() !== "chunked") return new ApiError("not_implemented");
  const fault = requestLineViolation(request);
  return fault === undefined ? undefined : new ApiError("invalid_request", fault);
}

/** Returns whether a proxy that knows only HTTP/1.0 may see another end of the request (RFC 9112 §6.1). */
export function hasDoubtfulEnd({ httpVersion, headers }: IncomingMessage): boolean {
  return httpVersion === "1.0" && headers["transfer-encoding"] !== undefined;
}

/**
 * Returns why a request's host or target is invalid (RFC 9112 §3.2), or `undefined`. Replaces a URL as target
 * by its path and query, because the host in the URL has no effect.
 */
function requestLineViolation(request: IncomingMessage): string | undefined {
  const { rawHeaders, httpVersion, headers } = request;
  const names = rawHeaders.filter((text, place) => place % 2 === 0 && text.length === HOST_LENGTH);
  const hosts = names.filter((name) => name.toLowerCase() === "host").length;
  if (hosts > 1 || (hosts === 0 && httpVersion === "1.1")) return "host: must be sent exactly once";
  if (hosts > 0 && !HOST.test(headers.host ?? "")) return "host: not a valid host";
  const { url = "" } = request;
  if (url.startsWith("/") || url === "*") return undefined;
  const [, authority = "", rest = ""] = ABSOLUTE.exec(url) ?? [];
  if (!HOST.test(authority)) return "the target is neither a path nor a URL with a host";
  request.url = rest.startsWith("/") ? rest : `/${rest}`;
  return undefined;
}

/** Maximum length of an `X-Request-Id`. A longer id exceeds the header limits of common proxies. */
export const MAX_REQUEST_ID = 1024;
const LONGEST_LOGGED = 128;
const SENDABLE = /^[\t\x20-\x7e\x80-\xff]+$/;

/** The id of a request in its response and in the log. */
export type RequestId = {
  /** The caller's own `X-Request-Id`, byte for byte, or a new id if it is absent or cannot be returned. */
  answered: string;
  /** The same id for the log: up to 128 characters, with `?` for each one that is not printable ASCII. */
  logged: string;
  /** The reason to refuse the call. AuthZEN 1.0 demands the same id in the response, so no id is cut. */
  fault?: string;
};

/** Returns the id of a request. Joins several headers into a list, as HTTP does. */
export function requestIdOf(presented: string | string[] | undefined): RequestId {
  const text = Array.isArray(presented) ? presented.join(", ") : presented;
  if (text === undefined || text === "") return fresh();
  if (text.length > MAX_REQUEST_ID) return { ...fresh(), fault: `longer than ${MAX_REQUEST_ID} bytes` };
  if (!SENDABLE.test(text)) return { ...fresh(), fault: "contains a control character" };
  return { answered: text, logged: text.slice(0, LONGEST_LOGGED).replaceAll(/[^\x20-\x7e]/g, "?") };
}

function fresh(): RequestId {
  const id = randomUUID();
  return { answered: id, logged: id };
}

/**
 * Returns the value of a header that may have several names. Throws `invalid_request` if two of the names
 * have different values: a gateway that sets one name could not stop its clients from sending another name.
 */
export function readHeader({ headers }: IncomingMessage, names: readonly string[]): string | undefined {
  let found: string | undefined;
  for (const name of names) {
    const value = headers[name];
    if (value === undefined) continue;
    const text = Array.isArray(value) ? value.join(", ") : value;
    if (found !== undefined && found !== text) {
      throw new ApiError("invalid_request", `${name}: sent under two names with different values`);
    }
    found = text;
  }
  return found;
}

/**
 * Returns query parameters by name. Throws `invalid_request` for a repeated parameter, and for text that the
 * database cannot store.
 */
export function readQuery(url: string): Record<string, string> {
  const start = url.indexOf("?");
  const query: Record<string, string> = {};
  if (start === -1) return query;
  for (const [name, value] of new URLSearchParams(url.slice(start + 1))) {
    if (Object.hasOwn(query, name)) throw new ApiError("invalid_request", "query: a parameter is repeated");
    if (name.includes("\0") || value.includes("\0")) {
      throw new ApiError("invalid_request", "query: must not contain U+0000");
    }
    Object.defineProperty(query, name, { value, enumerable: true });
  }
  return query;
}
