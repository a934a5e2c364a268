import { expect, test } from "vitest";
import { createLog } from "../../keyvault/log.ts";

const LEVELS = ["debug", "info", "warn", "error"] as const;

test.each([
  ["debug", ["debug", "info", "warn", "error"]],
  ["info", ["info", "warn", "error"]],
  ["warn", ["warn", "error"]],
  ["error", ["error"]],
  ["silent", []],
])("set to %s it tells %j", (level, told) => {
  const log = createLog(level);
  expect(LEVELS.filter((one) => log.isLevelEnabled(one))).toEqual(told);
});
