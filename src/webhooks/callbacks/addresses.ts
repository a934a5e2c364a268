import { isIP } from "node:net";
import ipaddr from "ipaddr.js";

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
