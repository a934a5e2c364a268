import type { ExternalState } from "../../../src/operator/api_client.ts";
import type { ApiFailure, ApiResult } from "../../../src/operator/api_transport.ts";
import type { OperatorContext } from "../../../src/operator/context.ts";
import type { AnyObject, CommonStatus } from "../../../src/operator/kinds.ts";
import type { Visit } from "../../../src/operator/queue.ts";
import { reconcileAgent } from "../../../src/operator/reconcile/agent.ts";
import { conditionOf } from "../../../src/operator/reconcile/conditions.ts";
import { reconcileDelegation } from "../../../src/operator/reconcile/delegation.ts";
import { createPlatformReconciler } from "../../../src/operator/reconcile/platform.ts";
import type { ObjectEvent, Secret } from "../../../src/operator/resources.ts";
import { steeredClock } from "../../support/clock.ts";
import { logged } from "../../support/logged.ts";
import { anAgent, aPlatform, NOW } from "../objects.ts";

/** The state that a visit finds. `answers` maps names of API calls to their results. */
type Found = {
  state?: ExternalState;
  failure?: ApiFailure;
  answers?: Record<string, ApiResult<unknown>>;
  secrets?: Secret[];
  others?: AnyObject[];
};

/** Runs visits to objects in a store in memory. Records the calls, status writes, events and Secrets. */
export function visitWorld(found: Found) {
  const clock = steeredClock(NOW);
  const calls: string[] = [];
  const events: ObjectEvent[] = [];
  const statuses: CommonStatus[] = [];
  const secrets = new Map((found.secrets ?? []).map((secret) => [secret.name, secret]));
  const reconcilePlatform = createPlatformReconciler();
  const others: AnyObject[] = found.others ?? [aPlatform(), anAgent()];
  const context = {
    resources: {
      list: (kind: string) => others.filter((object) => object.kind === kind),
      get: (kind: string) => others.find((object) => object.kind === kind),
      binding: () => ({ source: "tenants", account: { accountEmail: "owner@example.test" } }),
      isCurrent: async () => true,
      namespaceUid: async () => undefined,
      writeStatus: async (_: AnyObject, status: CommonStatus) => void statuses.push(status),
      setFinalizer: async () => void calls.push("setFinalizer"),
      recordEvent: (_: AnyObject, event: ObjectEvent) => void events.push(event),
      readSecret: async (_: string, name: string) => secrets.get(name),
      async writeSecret(secret: Secret) {
        secrets.set(secret.name, { ...secret, version: "2" });
        return true;
      },
      removeSecret: async ({ name }: Secret) => secrets.delete(name),
    },
    states: {
      read: async () =>
        found.failure === undefined ? { value: found.state ?? {} } : { failure: found.failure },
    },
    api: new Proxy(
      {},
      {
        get: (_, name: string) => async () => {
          calls.push(name);
          return found.answers?.[name] ?? { value: {} };
        },
      },
    ),
    clock,
    log: logged().log,
    apiUrl: "https://api.example.test",
    consoleUrl: "https://console.example.test",
    externalIdOf: ({ metadata }: AnyObject) => `c1.${metadata.uid}`,
  } as unknown as OperatorContext;

  async function visit(object: AnyObject): Promise<Visit> {
    if (object.kind === "Platform") return reconcilePlatform(context, object, 0);
    if (object.kind === "Agent") return reconcileAgent(context, object, 0);
    return reconcileDelegation(context, object, 0);
  }
  const reason = () => conditionOf(statuses.at(-1) ?? {}, "Ready")?.reason;
  return { visit, clock, calls, events, statuses, secrets, reason };
}
