import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { LRUCache } from "lru-cache";
import { atMost } from "../concurrency/at_most.ts";
import { ConfigError } from "../config.ts";
import { networkOf } from "../rates/client_rates.ts";

type Address = ReturnType<typeof ipaddr.parse>;
type Range = [Address, number];

const REMEMBERED = 10_000;

/** Returns the address of a call's client, from the call's TCP peer and `X-Forwarded-For` header. */
export type ClientAddress = (peer: string | undefined, forwardedFor: string | undefined) => string;

/**
 * Returns a function that finds the client's address: the rightmost hop that is not a trusted proxy. Each
 * trusted proxy vouches only for the hop that it appended, so a forged header never changes the result. At a
 * hop that is not an address, the search ends with the proxy that passed this hop on.
 *
 * `trusted` contains IP addresses and CIDR blocks. Throws `ConfigError` for any other entry.
 */
export function createClientAddress(trusted: readonly string[]): ClientAddress {
  const ranges = trusted.map(readRange);
  const isTrusted = (address: Address): boolean => ranges.some((range) => matches(address, range));
  const read = (peer: string): string => readAddress(peer)?.toString() ?? "unknown";
  // This code runs for each body, so the addresses of peers without a proxy are cached.
  const peers = new LRUCache<string, string>(atMost(REMEMBERED));
  return (peer = "", forwardedFor) => {
    if (forwardedFor === undefined || ranges.length === 0) return remembered(peers, peer, () => read(peer));
    let client = readAddress(peer);
    if (client === undefined) return "unknown";
    const hops = forwardedFor.split(",");
    while (hops.length > 0 && isTrusted(client)) {
      const hop = readAddress((hops.pop() ?? "").trim());
      if (hop === undefined) break;
      client = hop;
    }
    return client.toString();
  };
}

/** Returns a {@link networkOf} that caches the results for the most recent addresses. */
export function createNetworks(): (client: string) => string {
  const networks = new LRUCache<string, string>(atMost(REMEMBERED));
  return (client) => remembered(networks, client, () => networkOf(client));
}

function remembered(known: LRUCache<string, string>, key: string, read: () => string): string {
  const found = known.get(key);
  if (found !== undefined) return found;
  const text = read();
  known.set(key, text);
  return text;
}

/**
 * Returns a function that finds the client of a TCP connection before any header is read: the peer, or
 * `undefined` for a trusted proxy. Throws `ConfigError` for an entry that is neither an address nor a CIDR
 * block.
 */
export function createPeerClient(
  trusted: readonly string[],
): (peer: string | undefined) => string | undefined {
  const ranges = trusted.map(readRange);
  return (peer) => {
    const address = readAddress(peer ?? "");
    if (address === undefined) return "unknown";
    return ranges.some((range) => matches(address, range)) ? undefined : address.toString();
  };
}

/** Parses an IP address, with or without brackets or a port. Converts an IPv4-mapped IPv6 address to IPv4. */
function readAddress(text: string): Address | undefined {
  const bare = /^\[([^\]]+)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
  const withoutZone = bare.replace(/%.*$/, "");
  return isIP(withoutZone) === 0 ? undefined : ipaddr.process(withoutZone);
}

function readRange(text: string): Range {
  const [base = "", bits] = text.split("/");
  if (isIP(base) !== 0 && (bits === undefined || ipaddr.isValidCIDR(text))) {
    const address = ipaddr.parse(base);
    return [address, bits === undefined ? address.toByteArray().length * 8 : Number(bits)];
  }
  throw new ConfigError(
    `Settings are missing or wrong:\n  TRUSTED_PROXIES: ${text} is not an address or a CIDR block`,
  );
}

function matches(address: Address, [base, bits]: Range): boolean {
  return address.kind() === base.kind() && address.match(base, bits);
}
