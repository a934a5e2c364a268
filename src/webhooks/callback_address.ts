import { Resolver } from "node:dns/promises";
import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { writesItsHost } from "../input/url.ts";

/** The rules for addresses that a delivery may connect to. */
export type AddressPolicy = {
  /** Callback URLs may use plain http, and the allow-list may contain addresses of this machine. */
  readonly development: boolean;
  /** Returns whether a request may connect to this address. False for a string that is not an address. */
  allows(address: string): boolean;
};

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Range = [Address, number];

/** Outside development, the allow-list can allow only these ranges. */
const PRIVATE_RANGES = ["private", "carrierGradeNat", "uniqueLocal"];
const GLOBAL_IPV6: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse("2000::"), 3];
/** A public address at which a large cloud provider serves its metadata and agent service. */
const CLOUD_AGENT = "168.63.129.16";

/**
 * Creates the rules that prevent requests into our own network: only public unicast addresses are allowed.
 * Addresses with an embedded address are forbidden too (mapped, NAT64, 6to4, Teredo). `allowedCidrs` allows
 * any range in development, and only private ranges otherwise. Throws on a malformed range.
 */
export function createAddressPolicy(settings: {
  development: boolean;
  allowedCidrs: readonly string[];
}): AddressPolicy {
  const { development } = settings;
  const opened = settings.allowedCidrs.map((cidr): Range => ipaddr.parseCIDR(cidr));
  return {
    development,
    allows(text) {
      if (isIP(text) === 0) return false;
      const address = ipaddr.parse(text);
      if (isPublic(address)) return true;
      const openable = development || PRIVATE_RANGES.includes(address.range());
      return openable && opened.some((range) => contains(range, address));
    },
  };
}

function isPublic(address: Address): boolean {
  if (address.range() !== "unicast" || address.toString() === CLOUD_AGENT) return false;
  return address instanceof ipaddr.IPv4 || address.match(GLOBAL_IPV6);
}

function contains([base, bits]: Range, address: Address): boolean {
  return base.kind() === address.kind() && address.match([base, bits] as [ipaddr.IPv4, number]);
}

/** Ports of other protocols, whose servers could misinterpret a request (Fetch standard, §2.9, bad ports). */
export const FOREIGN_PORTS: ReadonlySet<number> = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104,
  109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515,
  526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049,
  3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
]);

/** Returns whether a URL's port belongs to a protocol other than HTTP. */
export function isForeignPort({ port }: URL): boolean {
  return port !== "" && FOREIGN_PORTS.has(Number(port));
}

const LONGEST_URL = 2048;

type CallbackRefusal =
  | "not a URL of at most 2048 characters"
  | "the scheme must be https"
  | "the host must be between https:// and the next slash"
  | "it must not contain a backslash"
  | "the port belongs to another protocol"
  | "it must not contain a user name or password"
  | "the host must be a name that is not this machine's own";

/**
 * Checks the form of a callback URL: https (or http in development), no user information, no port of another
 * protocol, no backslash, which parsers interpret differently, and a host between `//` and the next slash.
 *
 * The host is a name. A literal address or `localhost` passes only if the policy's allow-list contains it.
 * The sender checks the addresses of a name at every attempt.
 */
export function callbackUrlForm(
  text: string,
  policy: AddressPolicy,
): { url: URL } | { refused: CallbackRefusal } {
  const url = text.length <= LONGEST_URL ? URL.parse(text) : null;
  if (url === null) return { refused: "not a URL of at most 2048 characters" };
  if (url.protocol !== "https:" && !(policy.development && url.protocol === "http:")) {
    return { refused: "the scheme must be https" };
  }
  if (!writesItsHost(text)) return { refused: "the host must be between https:// and the next slash" };
  if (text.includes("\\")) return { refused: "it must not contain a backslash" };
  if (isForeignPort(url)) return { refused: "the port belongs to another protocol" };
  if (url.username !== "" || url.password !== "") {
    return { refused: "it must not contain a user name or password" };
  }
  const address = fixedAddress(url);
  if (url.hostname === "" || (address !== undefined && !policy.allows(address))) {
    return { refused: "the host must be a name that is not this machine's own" };
  }
  return { url };
}

/** Returns a URL's address if no resolver is necessary: a literal one, or 127.0.0.1 for `localhost`. */
export function fixedAddress(url: URL): string | undefined {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  if (isIP(host) !== 0) return host;
  return /(^|\.)localhost\.?$/.test(host) ? "127.0.0.1" : undefined;
}

/** Resolves a host name to addresses. Rejects if there is none, or when `signal` is aborted. */
export type Resolve = (name: string, signal: AbortSignal) => Promise<string[]>;

const TRY_MS = 900;
const TRIES = 4;
/** How long the other family's query may take after one family has addresses. */
const OTHER_FAMILY_MS = 500;

/**
 * Creates a resolver that asks `servers` (`address:port`; default: the machine's) for A and AAAA records.
 * Does not wait for a name server that never answers one of the two. Uses no thread of the pool, so a name
 * server that hangs delays no other receivers and no signatures.
 */
export function createResolve(servers?: string[]): Resolve {
  return async function resolve(name, signal) {
    const resolver = new Resolver({ timeout: TRY_MS, tries: TRIES });
    if (servers !== undefined) resolver.setServers(servers);
    const cancel = () => resolver.cancel();
    let limit: NodeJS.Timeout | undefined;
    async function look(query: Promise<string[]>): Promise<string[]> {
      const found = await query;
      limit ??= setTimeout(cancel, OTHER_FAMILY_MS);
      return found;
    }
    signal.addEventListener("abort", cancel);
    try {
      const answers = await Promise.allSettled([
        look(resolver.resolve4(name)),
        look(resolver.resolve6(name)),
      ]);
      const addresses = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
      const failure = answers.find((answer) => answer.status === "rejected");
      if (addresses.length === 0) throw failure?.reason ?? new Error("the host has no address");
      return addresses;
    } finally {
      signal.removeEventListener("abort", cancel);
      clearTimeout(limit);
    }
  };
}
