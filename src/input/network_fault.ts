import { connect as connectTcp } from "node:net";
import { getSystemErrorName } from "node:util";

/** A description of a failed connection, and the action that helps. */
export type Fault = { what: string; action: string };

const NO_SERVER =
  "Check host and port, that the server runs, and that firewalls and NetworkPolicies allow it.";
const AUTHORITY =
  "Set the authority that issued the server's certificate, or correct the server's certificate.";

/** By error code of Node. */
const faults: Record<string, Fault> = {
  ECONNREFUSED: { what: "the connection is refused: nothing listens there", action: NO_SERVER },
  ETIMEDOUT: { what: "no answer in time", action: NO_SERVER },
  EHOSTUNREACH: { what: "there is no route to it", action: NO_SERVER },
  ENETUNREACH: { what: "there is no route to its network", action: NO_SERVER },
  EADDRNOTAVAIL: { what: "this machine has no address for its network", action: NO_SERVER },
  ECONNRESET: { what: "the other side closed the connection", action: NO_SERVER },
  EPIPE: { what: "the other side closed the connection", action: NO_SERVER },
  ENOTFOUND: { what: "the name has no address", action: "Correct the host name, or add it to the DNS." },
  ENODATA: { what: "the name has no address", action: "Correct the host name, or add it to the DNS." },
  EAI_AGAIN: {
    what: "no name server answered",
    action: "Check /etc/resolv.conf, the name server, and that NetworkPolicies allow port 53 (UDP and TCP).",
  },
  CERT_HAS_EXPIRED: { what: "the server's certificate has expired", action: "Renew it." },
  CERT_NOT_YET_VALID: { what: "the server's certificate is not valid yet", action: "Compare the clocks." },
  DEPTH_ZERO_SELF_SIGNED_CERT: { what: "the server's certificate is self-signed", action: AUTHORITY },
  SELF_SIGNED_CERT_IN_CHAIN: {
    what: "the authority of the server's certificate is unknown",
    action: AUTHORITY,
  },
  UNABLE_TO_GET_ISSUER_CERT: {
    what: "the authority of the server's certificate is unknown",
    action: AUTHORITY,
  },
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: {
    what: "the authority of the server's certificate is unknown",
    action: AUTHORITY,
  },
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: {
    what: "the authority of the server's certificate is unknown",
    action: AUTHORITY,
  },
  ERR_TLS_CERT_ALTNAME_INVALID: {
    what: "the server's certificate is for another host",
    action: "Use a name that the certificate contains, or issue the certificate for this name.",
  },
  ERR_SSL_WRONG_VERSION_NUMBER: {
    what: "the server does not use TLS at this port",
    action: "Correct the port or the scheme of the URL.",
  },
  ERR_SSL_PACKET_LENGTH_TOO_LONG: {
    what: "the server does not use TLS at this port",
    action: "Correct the port or the scheme of the URL.",
  },
};
const aliases: Record<string, string> = {
  UND_ERR_CONNECT_TIMEOUT: "ETIMEDOUT",
  UND_ERR_SOCKET: "ECONNRESET",
  ESOCKET: "ECONNRESET",
  EDNS: "ENOTFOUND",
  ENONAME: "ENOTFOUND",
};

/** Returns what an error of a connection means, or `undefined` for another error. Looks at all its causes. */
export function networkFault(error: unknown): Fault | undefined {
  return codesOf(error)
    .map((code) => faults[code] ?? faults[aliases[code] ?? ""])
    .find((fault) => fault !== undefined);
}

/** Returns the codes of an error, of its causes and of its parts. The innermost is first. */
export function codesOf(error: unknown, depth = 0): string[] {
  if (!(error instanceof Error) || depth > 8) return [];
  const { code, name, cause } = error as Error & { code?: unknown };
  const parts = error instanceof AggregateError ? error.errors : [];
  const inner = [cause, ...parts].flatMap((each) => codesOf(each, depth + 1));
  const own = [systemCode(error), name === "TimeoutError" || name === "AbortError" ? "ETIMEDOUT" : code];
  return [...inner, ...own.filter((each) => typeof each === "string")];
}

/** The mail library replaces the code of a system error, but not its number. */
function systemCode({ errno }: Error & { errno?: unknown }): string | undefined {
  return typeof errno === "number" && errno < 0 ? getSystemErrorName(errno) : undefined;
}

const CLOSED = new Set(["ECONNREFUSED", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH", "EADDRNOTAVAIL"]);

/** Returns whether no connection could be opened, as behind a firewall or a NetworkPolicy. */
export function isClosed(error: unknown): boolean {
  return codesOf(error).some((code) => CLOSED.has(code));
}

/** Opens a TCP connection and closes it. Rejects with Node's error, or with `signal`'s reason. */
export function reach(host: string, port: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const socket = connectTcp({ host, port, signal, autoSelectFamily: true });
  socket.once("connect", resolve).once("error", reject);
  return promise.finally(() => socket.destroy());
}

/** Returns a URL without user, password, path and query, as text for people. */
export function withoutSecrets(text: string): string {
  const url = URL.parse(text);
  return url === null ? "a URL that cannot be parsed" : `${url.protocol}//${url.host}`;
}
