import { Resolver } from "node:dns/promises";
import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { writesItsHost } from "../input/url.ts";

/** Which addresses a delivery may connect to. */
export type AddressPolicy = {
  /** Plain http and addresses of this machine are possible, as far as the allow-list names them. */
  readonly development: boolean;
  /** Whether a request may go to this address. Never for text that is not an address. */
  allows(address: string): boolean;
};

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Range = [Address, number];

/** Ranges of private networks: only these can be opened by the allow-list outside development. */
const PRIVATE_RANGES = ["private", "carrierGradeNat", "uniqueLocal"];
const GLOBAL_IPV6: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse("2000::"), 3];
/** A public address that answers as the metadata and agent service inside a large cloud. */
const CLOUD_AGENT = "168.63.129.16";

/**
 * The rules against requests into our own network. Public unicast addresses are allowed. Everything else
 * (private, loopback, link-local and with it metadata services, shared, multicast, reserved, and addresses
 * that embed another one: mapped, NAT64, 6to4, Teredo) is not. `allowedCidrs` opens ranges: any in
 * development, private ones otherwise. Throws on a malformed range.
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

/**
 * Ports of other protocols, where a request could be taken for one of theirs: the "bad ports" of the Fetch
 * standard, §2.9.
 */
export const FOREIGN_PORTS: ReadonlySet<number> = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104,
  109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515,
  526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049,
  3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
]);

/** Whether a URL leads to a port that belongs to another protocol than HTTP. */
export function isForeignPort({ port }: URL): boolean {
  return port !== "" && FOREIGN_PORTS.has(Number(port));
}

const LONGEST_URL = 2048;

/** Why a callback URL is refused before anything is resolved or sent. */
type CallbackRefusal =
  | "not a URL of at most 2048 characters"
  | "the scheme must be https"
  | "the host must be between https:// and the next slash"
  | "it must not contain a backslash"
  | "the port belongs to another protocol"
  | "it must not contain a user name or password"
  | "the host must be a name that is not this machine's own";

/**
 * Checks the form of a callback URL: https (http in development), its host where it belongs, no backslash,
 * which parsers read differently, no port of another protocol, no user information, a host name rather than
 * an address. Literal addresses and `localhost` pass only as far as the policy's allow-list names them. What
 * the name resolves to is checked at every attempt.
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

/**
 * The address of a URL whose host needs no resolver: a literal one, or 127.0.0.1 for `localhost` and names
 * below it.
 */
export function fixedAddress(url: URL): string | undefined {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  if (isIP(host) !== 0) return host;
  return /(^|\.)localhost\.?$/.test(host) ? "127.0.0.1" : undefined;
}

/** Finds the addresses of a host name. Rejects when there is none or the resolver does not answer in time. */
export type Resolve = (name: string) => Promise<string[]>;

const TRY_MILLISECONDS = 900;
const TRIES = 2;
const LIMIT_MILLISECONDS = 2000;

/**
 * Asks name servers (those given as `address:port`, else the machine's own) for A and AAAA records, for at
 * most 2 s. It takes no thread of the pool, so a name server that hangs for one receiver delays no other one
 * and no signature.
 */
export function createResolve(servers?: string[]): Resolve {
  return async function resolve(name) {
    const resolver = new Resolver({ timeout: TRY_MILLISECONDS, tries: TRIES });
    if (servers !== undefined) resolver.setServers(servers);
    const limit = setTimeout(() => resolver.cancel(), LIMIT_MILLISECONDS);
    try {
      const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
      const addresses = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
      const failure = answers.find((answer) => answer.status === "rejected");
      if (addresses.length === 0) throw failure?.reason ?? new Error("the host has no address");
      return addresses;
    } finally {
      clearTimeout(limit);
    }
  };
}
