import { expect, test } from "vitest";
import { networkOf } from "../../src/rates/client_rates.ts";

test.each([
  ["192.0.2.1", "192.0.2.1"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["2001:db8::1", "2001:db8::"],
  ["2001:db8::ffff:1", "2001:db8::"],
  ["2001:db8:0:1::1", "2001:db8:0:1::"],
  ["unknown", "unknown"],
])("%s counts as the client %s", (address, network) => {
  expect(networkOf(address)).toBe(network);
});
