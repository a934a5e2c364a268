import { describe, expect, test } from "vitest";
import { createLog } from "../../src/log.ts";
import type { OperatorContext } from "../../src/operator/context.ts";
import { startController } from "../../src/operator/controller.ts";
import type { AnyObject } from "../../src/operator/kinds.ts";
import { noTracing } from "../../src/operator/tracing.ts";
import { operatorMetrics } from "../support/operator_metrics.ts";
import { aDelegation, anAgent, aPlatform, NOW } from "./objects.ts";

async function callsFor(
  objects: AnyObject[],
  { isCurrent, isHeld }: { isCurrent: boolean; isHeld: boolean },
): Promise<string[]> {
  const calls: string[] = [];
  const find = (kind: string) => objects.filter((object) => object.kind === kind);
  const context = {
    resources: {
      list: find,
      get: (kind: string) => find(kind)[0],
      subscribe: () => () => undefined,
      binding: () => ({ account: { accountEmail: "owner@example.test" } }),
      readSecret: async () => undefined,
      isCurrent: async () => isCurrent,
      writeStatus: async () => undefined,
      recordEvent: () => undefined,
    },
    states: {
      async read() {
        calls.push("state");
        return { value: {} };
      },
    },
    api: new Proxy(
      {},
      {
        get: (_, name) => async () => {
          calls.push(String(name));
          return { failure: { kind: "unavailable", message: "away" } };
        },
      },
    ),
    clock: { now: () => NOW },
    log: createLog("silent", "test"),
    metrics: operatorMetrics(),
    tracing: noTracing,
    apiUrl: "https://api.example.test",
    consoleUrl: "https://console.example.test",
    externalIdOf: ({ metadata }: AnyObject) => `c1.${metadata.uid}`,
  } as unknown as OperatorContext;
  const controller = startController(context, { isHeld: () => isHeld });
  await new Promise((resolve) => setTimeout(resolve, 50));
  await controller.stop();
  return calls.filter((name) => name !== "readState");
}

const unregistered = { conditions: [] };
const cases: [string, AnyObject[], string][] = [
  ["a registration", [aPlatform({ status: unregistered })], "putPlatform"],
  ["a key", [aPlatform(), anAgent({ status: { conditions: [] } })], "putAgent"],
  ["a request", [aPlatform(), anAgent(), aDelegation()], "putDelegation"],
];

describe("the operator's API call for", () => {
  test.each(cases)(
    "%s is made while the operator leads and the object is current",
    async (_, objects, call) => {
      expect(await callsFor(objects, { isCurrent: true, isHeld: true })).toContain(call);
    },
  );

  test.each(cases)("%s is not made if the object is no longer current", async (_, objects, call) => {
    expect(await callsFor(objects, { isCurrent: false, isHeld: true })).not.toContain(call);
  });

  test.each(cases)(
    "%s is omitted, like every other call, once the operator may no longer lead",
    async (_, objects) => {
      expect(await callsFor(objects, { isCurrent: true, isHeld: false })).toEqual([]);
    },
  );
});
