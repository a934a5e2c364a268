import { expect, test } from "vitest";
import { byRisk } from "../../../src/protocol/documents/scope_risk.ts";

test("scopes are read in the order of their risk, and those that only a platform knows come last", () => {
  const asked = ["custom:a:b", "data:read", "meeting:*", "payments:send", "data:delete", "transact:purchase"];
  expect(byRisk(asked)).toEqual([
    ...["data:delete", "payments:send", "transact:purchase", "meeting:*", "data:read", "custom:a:b"],
  ]);
});
