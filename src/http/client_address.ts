import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { LRUCache } from "lru-cache";
import { ConfigError } from "../config.ts";
import { networkOf } from "../rates/client_rates.ts";

type Address = ReturnType<typeof ipaddr.parse>;
type Range = [Address, number];

const REMEMBERED = 10_000;

/** Tells the client's address of a call from its TCP peer and its `X-Forwarded-For`. */
export type ClientAddress = (peer: string | undefined, forwardedFor: string | undefined) => string;

/**
 * The client is the rightmost hop that is not a trusted proxy: each trusted proxy vouches for the hop it
 * appended, and for nothing further left, so a forged header never moves the answer. A hop that is not an
 * address ends the walk at the proxy that passed it on. `trusted` holds addresses and CIDR blocks; with none
 * of them the peer is the client. Throws `ConfigError` for an entry that is neither.
 */
export function createClientAddress(trusted: readonly string[]): ClientAddress {
  const ranges = trusted.map(readRange);
  const isTrusted = (address: Address): boolean => ranges.some((range) => matches(address, range));
  const read = (peer: string): string => readAddress(peer)?.toString() ?? "unknown";
  // Asked for each body: a peer that is its own client is read once.
  const peers = new LRUCache<string, string>({ max: REMEMBERED });
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

/**
 * The network of a client's address, as {@link networkOf} has it; read once for each of those that were asked
 * for last.
 */
export function createNetworks(): (client: string) => string {
  const networks = new LRUCache<string, string>({ max: REMEMBERED });
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
 * The client behind a TCP peer, when it is known before any header is read: the peer itself, `undefined` when
 * that is a trusted proxy. Throws `ConfigError` likewise.
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

/**
 * An IPv4 address, or an IPv6 one that may be in brackets, or either with a port; IPv4 inside IPv6 is IPv4.
 */
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
