import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test, vi } from "vitest";
import { createLog } from "../../src/log.ts";
import type { OperatorContext } from "../../src/operator/context.ts";
import { startController } from "../../src/operator/controller.ts";
import type { AnyObject } from "../../src/operator/kinds.ts";
import { noTracing } from "../../src/operator/tracing.ts";
import { agreeing } from "../support/clock.ts";
import { operatorMetrics } from "../support/operator_metrics.ts";
import { until } from "../support/process.ts";
import { aDelegation, anAgent, aPlatform, truth } from "./objects.ts";

type Options = { isCurrent?: boolean; isHeld?: boolean; isAway?: boolean };

/** Starts a controller over these objects. The API knows none of them, and every change at it fails. */
function started(objects: AnyObject[], { isCurrent = true, isHeld = true, isAway = false }: Options) {
  const calls: string[] = [];
  const failure = { kind: "unavailable", message: "away" };
  const find = (kind: string) => objects.filter((object) => object.kind === kind);
  const context = {
    resources: {
      list: find,
      get: (kind: string) => find(kind)[0],
      subscribe: () => () => undefined,
      binding: () => ({ account: { accountEmail: "owner@example.test" } }),
      readSecret: async () => undefined,
      isCurrent: async () => isCurrent,
      serves: () => true,
      namespaceUid: async () => undefined,
      writeStatus: async () => undefined,
      recordEvent: () => undefined,
    },
    states: {
      async read() {
        calls.push("state");
        return isAway ? { failure } : { value: {} };
      },
    },
    api: new Proxy(
      {},
      {
        get: (_, name) => async () => {
          calls.push(String(name));
          const states = { platforms: {}, agents: {}, delegations: {} };
          return name === "readState" ? { value: states } : { failure };
        },
      },
    ),
    clock: agreeing(),
    log: createLog("silent", "test"),
    metrics: operatorMetrics(),
    tracing: noTracing,
    apiUrl: "https://api.example.test",
    consoleUrl: "https://console.example.test",
    externalIdOf: ({ metadata }: AnyObject) => `c1.${metadata.uid}`,
  } as unknown as OperatorContext;
  return { controller: startController(context, { isHeld: () => isHeld }), calls };
}

/** Returns the calls until `call` was made, or within 50 ms. */
async function callsFor(objects: AnyObject[], options: Options, call?: string): Promise<string[]> {
  const { controller, calls } = started(objects, options);
  if (call === undefined) await sleep(50);
  else await until(`${call} is called`, () => calls.includes(call));
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
      expect(await callsFor(objects, { isCurrent: true, isHeld: true }, call)).toContain(call);
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

describe("a controller", () => {
  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  const failing = () =>
    aPlatform({ status: { conditions: [truth("Ready", { status: "False", reason: "ApiUnavailable" })] } });

  test("retries a failed object every 15 s as if it had not failed before", async () => {
    vi.useFakeTimers();
    vi.spyOn(Math, "random").mockReturnValue(1);
    const { controller, calls } = started([failing()], { isAway: true });
    const visits = () => calls.filter((name) => name === "state").length;
    await vi.advanceTimersByTimeAsync(60_500);
    const before = visits();
    await vi.advanceTimersByTimeAsync(15_000);
    expect(visits() - before).toBeGreaterThanOrEqual(4);
    await controller.stop();
  });

  test("makes no call after it has stopped", async () => {
    vi.useFakeTimers();
    const { controller, calls } = started([failing()], { isAway: true });
    await vi.advanceTimersByTimeAsync(5_000);
    await controller.stop();
    const { length } = calls;
    await vi.advanceTimersByTimeAsync(3_600_000);
    expect(calls).toHaveLength(length);
  });
});
