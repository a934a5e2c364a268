import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ConfigError } from "../../src/config.ts";
import { createClientAddress } from "../../src/http/client_address.ts";

describe("the client's address", () => {
  const direct = createClientAddress([]);
  const behind = createClientAddress(["10.0.0.0/8", "192.0.2.1", "2001:db8:ffff::/48"]);

  test.each([
    ["the peer, when no proxy is trusted", direct, "203.0.113.7", "198.51.100.1", "203.0.113.7"],
    ["the peer, when it is not a trusted proxy", behind, "203.0.113.7", "198.51.100.1", "203.0.113.7"],
    ["the address that the trusted peer saw", behind, "10.1.2.3", "198.51.100.1", "198.51.100.1"],
    [
      "the address that the last trusted proxy of several saw",
      behind,
      "10.1.2.3",
      "6.6.6.6, 198.51.100.1, 192.0.2.1, 10.9.9.9",
      "198.51.100.1",
    ],
    ["the leftmost, when all are trusted", behind, "10.1.2.3", "10.0.0.1, 10.0.0.2", "10.0.0.1"],
    ["the proxy, when it sends no header", behind, "10.1.2.3", undefined, "10.1.2.3"],
    ["the proxy, when it sends an invalid hop", behind, "10.1.2.3", "198.51.100.1, unknown", "10.1.2.3"],
    ["the proxy, when it sends an empty hop", behind, "10.1.2.3", "198.51.100.1,", "10.1.2.3"],
    ["IPv4, when it was inside IPv6", behind, "::ffff:10.1.2.3", "::ffff:198.51.100.1", "198.51.100.1"],
    ["without the port that some proxies add", behind, "10.1.2.3", "198.51.100.1:4711", "198.51.100.1"],
    ["IPv6 without brackets and port", behind, "2001:db8:ffff::1", "[2001:db8:1::9]:4711", "2001:db8:1::9"],
    [
      "the same text for every spelling of an IPv6 address",
      behind,
      "10.1.2.3",
      "2001:0DB8:0001:0::0009",
      "2001:db8:1::9",
    ],
    ["the proxy, when the hop only looks like an address", behind, "10.1.2.3", "0x7f.1", "10.1.2.3"],
    ["unknown, when the peer has disconnected", direct, undefined, "198.51.100.1", "unknown"],
  ])("can be determined: %s", (_, tell, peer, forwardedFor, client) => {
    expect(tell(peer, forwardedFor)).toBe(client);
  });

  test.each([
    ["10.255.255.255", true],
    ["11.0.0.0", false],
    ["192.0.2.1", true],
    ["192.0.2.2", false],
    ["2001:db8:ffff:ffff::1", true],
    ["2001:db8:fffe::1", false],
  ])("comes from the header of the peer %s: %s", (peer, trusted) => {
    expect(behind(peer, "198.51.100.1")).toBe(trusted ? "198.51.100.1" : peer);
  });

  test("does not depend on hops to the left of the hop that a trusted proxy saw", () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.ipV4(), fc.ipV6(), fc.string())), fc.ipV4(), (forged, hop) => {
        const chain = [...forged.map((text) => text.replaceAll(",", "")), hop].join(", ");
        if (!hop.startsWith("10.") && hop !== "192.0.2.1") expect(behind("10.1.2.3", chain)).toBe(hop);
        expect(direct("203.0.113.7", chain)).toBe("203.0.113.7");
      }),
    );
  });

  test.each(["10.0.0.0/33", "10.0.0.0/x", "nonsense", "10.0.0", "/8", "::1/129", "0x0a.0.0.0/8"])(
    "cannot be determined with %s as a trusted proxy, so the API does not start",
    (entry) => {
      expect(() => createClientAddress([entry])).toThrow(ConfigError);
      expect(() => createClientAddress([entry])).toThrow("TRUSTED_PROXIES");
    },
  );
});
