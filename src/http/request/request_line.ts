import type { IncomingMessage } from "node:http";

const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]+)(?::[0-9]*)?$/;
const HOST_LENGTH = 4;
const ABSOLUTE = /^https?:\/\/([^/?#]*)(.*)$/is;

/**
 * What is wrong with the address of a request (RFC 9112 §3.2): no `Host` in HTTP/1.1, two of them, or one
 * that names none; a target that is neither a path nor a URL with a host. A target that is a URL is brought
 * to its path and query: which host it names makes no difference here.
 */
export function requestLineViolation(request: IncomingMessage): string | undefined {
  const { rawHeaders, httpVersion, headers } = request;
  const names = rawHeaders.filter((text, place) => place % 2 === 0 && text.length === HOST_LENGTH);
  const hosts = names.filter((name) => name.toLowerCase() === "host").length;
  if (hosts > 1 || (hosts === 0 && httpVersion === "1.1")) return "host: must be sent exactly once";
  if (hosts > 0 && !HOST.test(headers.host ?? "")) return "host: not a host";
  const { url = "" } = request;
  if (url.startsWith("/") || url === "*") return undefined;
  const [, authority = "", rest = ""] = ABSOLUTE.exec(url) ?? [];
  if (!HOST.test(authority)) return "the target is neither a path nor a URL with a host";
  request.url = rest.startsWith("/") ? rest : `/${rest}`;
  return undefined;
}
