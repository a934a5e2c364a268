import { describe, expect, test } from "vitest";
import { operatorDelegationRoutes } from "../src/delegations/declared/operator_routes.ts";
import { operatorCalls } from "../src/operator_calls.ts";
import { operatorPlatformRoutes } from "../src/platforms/declared/operator_routes.ts";

describe("the contract for the operator's calls", () => {
  test("contains every route that the API declares for the operator, and no other calls", () => {
    const routes = [...operatorPlatformRoutes({} as never), ...operatorDelegationRoutes({} as never)];
    expect(routes.every(({ access }) => access === "operator")).toBe(true);
    const declared = routes.map(({ method, path, params, body, answer }) => ({
      method,
      path,
      params,
      body,
      answer,
    }));
    expect(declared).toHaveLength(Object.keys(operatorCalls).length);
    for (const call of Object.values(operatorCalls)) {
      const route = declared.find(({ method, path }) => method === call.method && path === call.path);
      expect(route?.answer).toBe(call.answer);
      expect(route?.body).toBe("body" in call ? call.body : undefined);
      expect(route?.params).toBe("params" in call ? call.params : undefined);
    }
  });
});
