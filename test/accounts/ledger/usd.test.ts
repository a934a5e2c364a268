import fc from "fast-check";
import { expect, test } from "vitest";
import { formatUsd, MOST_MICRO_USD, parseUsd } from "../../../src/accounts/ledger/amounts.ts";

test.each([
  ["10", 10_000_000],
  ["0.5", 500_000],
  ["0.000001", 1],
  ["1.10", 1_100_000],
  ["4.35", 4_350_000],
  ["1.000001", 1_000_001],
  ["1000000", MOST_MICRO_USD],
])("parseUsd parses %s US dollars as %i micro-USD", (text, microUsd) => {
  expect(parseUsd(text)).toBe(microUsd);
});

test.each([
  ...["0", "0.0", "0.000000", "-1", "+1", "1e3", "0x10", "", " ", "1 ", " 1", "1.", ".5", "1.0000001", "01"],
  ...["1,5", "1_000", "NaN", "Infinity", "1000000.000001", "1000001", "99999999", "１"],
])("parseUsd rejects %j", (text) => {
  expect(parseUsd(text)).toBeUndefined();
});

test("parseUsd parses the output of formatUsd as the original amount", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: MOST_MICRO_USD }), (microUsd) => {
      expect(parseUsd(formatUsd(microUsd))).toBe(microUsd);
    }),
  );
});

test("formatUsd shows two decimals, or more if needed", () => {
  const amounts = [0, 10_000_000, 1_998_000, 2_000, 1, 500_000, -2_000, 120_000];
  expect(amounts.map(formatUsd)).toEqual([
    ...["0.00", "10.00", "1.998", "0.002", "0.000001", "0.50", "-0.002", "0.12"],
  ]);
});
