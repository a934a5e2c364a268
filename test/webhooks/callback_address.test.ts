import { describe, expect, test } from "vitest";
import { createAddressPolicy } from "../../src/webhooks/callback_address.ts";

const forbidden = [
  ["loopback", ["127.0.0.1", "127.255.255.255", "::1"]],
  ["this network", ["0.0.0.0", "0.1.2.3", "::"]],
  [
    "private",
    ["10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.1", "fc00::1", "fdff::1"],
  ],
  ["shared (carrier-grade NAT)", ["100.64.0.0", "100.127.255.255", "100.100.100.200"]],
  ["link-local", ["169.254.0.1", "fe80::1", "febf::1"]],
  ["cloud metadata", ["169.254.169.254", "fd00:ec2::254", "192.0.0.192", "168.63.129.16"]],
  ["multicast", ["224.0.0.1", "239.255.255.255", "ff02::1"]],
  ["broadcast and reserved", ["255.255.255.255", "240.0.0.1", "192.0.0.1", "198.18.0.1", "198.19.255.255"]],
  ["documentation", ["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"]],
  ["mapped IPv4", ["::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1"]],
  ["NAT64", ["64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1"]],
  ["6to4 and Teredo", ["2002:7f00:1::", "2002:808:808::1", "2001::1", "192.88.99.1"]],
  ["outside global unicast IPv6", ["fec0::1", "100::1", "5f00::1", "4000::1", "1::1"]],
  ["not an address", ["", "localhost", "1.2.3", "256.1.1.1", "8.8.8.8 ", "::g"]],
] as const;

describe("without an allow-list", () => {
  const policy = createAddressPolicy({ development: false, allowedCidrs: [] });

  test.each(forbidden)("forbids %s", (_, addresses) => {
    for (const address of addresses) expect([address, policy.allows(address)]).toEqual([address, false]);
  });

  test.each([
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.1",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "192.169.0.0",
    "223.255.255.255",
    "2606:4700::1111",
    "2a00:1450::1",
  ])("allows the public %s", (address) => expect(policy.allows(address)).toBe(true));

  test("is just as strict in development", () => {
    const development = createAddressPolicy({ development: true, allowedCidrs: [] });
    for (const [, addresses] of forbidden) {
      for (const address of addresses) {
        expect([address, development.allows(address)]).toEqual([address, false]);
      }
    }
  });
});

describe("with an allow-list", () => {
  const allowedCidrs = ["10.1.0.0/16", "fd00:1::/32", "127.0.0.0/8", "169.254.0.0/16"];

  test("opens the private ranges named, to their last address and no further", () => {
    const policy = createAddressPolicy({ development: false, allowedCidrs });
    expect(["10.1.0.0", "10.1.255.255", "fd00:1::1"].map(policy.allows)).toEqual([true, true, true]);
    expect(["10.0.255.255", "10.2.0.0", "fd00:2::1", "192.168.0.1"].map(policy.allows)).toEqual(
      Array(4).fill(false),
    );
  });

  test("never opens loopback or link-local outside development", () => {
    const policy = createAddressPolicy({ development: false, allowedCidrs });
    expect(["127.0.0.1", "169.254.169.254"].map(policy.allows)).toEqual([false, false]);
  });

  test("opens loopback in development", () => {
    const policy = createAddressPolicy({ development: true, allowedCidrs });
    expect(["127.0.0.1", "10.1.2.3"].map(policy.allows)).toEqual([true, true]);
    expect(["::1", "::ffff:127.0.0.1", "10.2.0.0"].map(policy.allows)).toEqual([false, false, false]);
  });

  test("refuses a malformed range", () => {
    expect(() => createAddressPolicy({ development: false, allowedCidrs: ["10.0.0.0/33"] })).toThrow();
  });
});
