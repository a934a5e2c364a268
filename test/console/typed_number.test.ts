import { expect, test } from "vitest";
import { readingsOf, writtenNumber } from "../../src/console/elements/form.ts";

test.each<[string, number[]]>([
  ["1,000", [1000, 1]],
  ["1.000", [1000, 1]],
  ["-13.405", [-13405, -13.405]],
  ["−123,456", [-123456, -123.456]],
  ["12.50", [12.5]],
  ["12,5", [12.5]],
  [" 1000 ", [1000]],
  ["0.125", [0.125]],
  ["1234.567", [1234.567]],
  ["1.0000", [1]],
  ["1,000.50", []],
  ["1.000,50", []],
  ["1,000,000", []],
  ["1 000", []],
  ["1e3", []],
  [".5", []],
  ["", []],
])("readingsOf(%j) returns %j", (text, readings) => {
  expect(readingsOf(text)).toEqual(readings);
});

test("readingsOf returns no number above the maximum, so a coordinate with three decimals is unambiguous", () => {
  expect(readingsOf("13.405", 180)).toEqual([13.405]);
  expect(readingsOf("1,000", 1000)).toEqual([1000, 1]);
});

test.each([1, 1000, 12.5, 1.125, -13.405, 0.125, 1e-7, 1234.567])(
  "writtenNumber formats %d so that the text means only this number",
  (value) => {
    expect(readingsOf(writtenNumber(value))).toEqual([value]);
  },
);
