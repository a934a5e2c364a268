import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { kubernetesBinary, missingControllers } from "../../support/kubernetes/binary.ts";
import { type Controllers, startControllers } from "../../support/kubernetes/controllers.ts";
import { installDefinitions } from "../../support/kubernetes/definitions.ts";
import { type Kubernetes, startKubernetes } from "../../support/kubernetes/server.ts";
import { until } from "../../support/process.ts";
import { agent, delegation, only, platform } from "../operator_folder.ts";
import { type OperatorCluster, operatorCluster } from "./operator_cluster.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const binary = await kubernetesBinary();
const missing = binary.missing ?? (await missingControllers());
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

describe.skipIf(missing !== undefined)(
  "a namespace in a cluster with Kubernetes' own controllers",
  {
    timeout: 90_000,
  },
  () => {
    let kubernetes: Kubernetes;
    let controllers: Controllers;
    let world: OperatorCluster;

    beforeAll(async () => {
      kubernetes = await startKubernetes(binary.path ?? "");
      await installDefinitions(kubernetes);
      controllers = await startControllers(binary.path ?? "", kubernetes);
    }, BUILD_TIMEOUT_MS);
    afterAll(async () => {
      await controllers?.stop();
      await kubernetes?.stop();
    });
    beforeEach(async () => {
      world = await operatorCluster(kubernetes);
      await world.start();
    });
    afterEach(() => world.dispose());

    const path = () => `/api/v1/namespaces/${world.namespace}`;
    const isGone = async () => (await kubernetes.call("GET", path())).status === 404;
    async function declareActive(): Promise<void> {
      await world.apply(platform({ deletionPolicy: "Delete" }), agent(), delegation());
      await world.reaches("Delegation", "bot", "AwaitingApproval");
      world.api.approve(only(world.api.delegations).request_id, ["data:read"]);
      await world.reaches("Delegation", "bot", "Active");
    }

    test("disappears with all its objects after their authority has ended", async () => {
      await declareActive();
      await kubernetes.call("DELETE", path());
      await until("it is gone", isGone, 60_000);
      expect(only(world.api.delegations).status).toBe("revoked");
      expect(only(world.api.platforms).removed).toBe(true);
    });

    test("remains and reports why while the API is unavailable, and disappears when the API is back", async () => {
      await declareActive();
      await world.api.goAway();
      await kubernetes.call("DELETE", path());
      await world.reaches("Delegation", "bot", "Terminating");
      await sleep(3000);
      expect(await isGone()).toBe(false);
      const ready = (await world.find("Delegation", "bot"))?.status.conditions?.find(
        ({ type }) => type === "Ready",
      );
      expect(ready?.message).toContain("Not revoked or released yet");
      await world.api.comeBack();
      await until("it is gone", isGone, 60_000);
      expect(only(world.api.delegations).status).toBe("revoked");
    });

    test("has its objects served while its labels match the selector, and disappears in any case", async () => {
      await world.dispose();
      const settings = { NAMESPACE_SELECTOR: "team in (shop,desk),!off" };
      world = await operatorCluster(kubernetes, { settings });
      const label = (labels: object) =>
        kubernetes.call("PATCH", path(), { metadata: { labels } }, "application/merge-patch+json");
      await world.start();
      await world.apply(platform());
      await world.reaches("Platform", "shop", "NamespaceNotSelected");
      await label({ team: "desk" });
      await world.reaches("Platform", "shop", "Active");
      await declareActive();
      await label({ off: "yes" });
      await world.reaches("Delegation", "bot", "NamespaceNotSelected");
      expect(only(world.api.delegations).status).toBe("approved");
      await kubernetes.call("DELETE", path());
      await until("it is gone", isGone, 60_000);
      expect(only(world.api.delegations).status).toBe("revoked");
      expect(only(world.api.platforms).removed).toBe(true);
    });

    test("rejects objects beyond a quota for Deputize's kinds", async () => {
      const quotas = `/api/v1/namespaces/${world.namespace}/resourcequotas`;
      const hard = { "count/delegations.deputize.io": "2" };
      await kubernetes.call("POST", quotas, { metadata: { name: "few" }, spec: { hard } });
      await until(
        "the quota counts",
        async () => {
          const { body } = await kubernetes.call("GET", `${quotas}/few`);
          const { used } = (body.status ?? {}) as { used?: Record<string, string> };
          return used?.["count/delegations.deputize.io"] === "0";
        },
        60_000,
      );
      const objects = `/apis/deputize.io/v1alpha1/namespaces/${world.namespace}/delegations`;
      const statuses: number[] = [];
      for (let n = 0; n < 5; n += 1) {
        const { status } = await kubernetes.call("POST", objects, delegation({}, { name: `mass-${n}` }));
        statuses.push(status);
      }
      expect(statuses).toEqual([201, 201, 403, 403, 403]);
    });

    test("reports a used-up quota at the Platform, and continues when the quota is raised", async () => {
      const quotas = `${path()}/resourcequotas`;
      await kubernetes.call("POST", quotas, { metadata: { name: "few" }, spec: { hard: { secrets: "0" } } });
      await until("the quota counts", async () => {
        const { body } = await kubernetes.call("GET", `${quotas}/few`);
        return (body.status as { hard?: object } | undefined)?.hard !== undefined;
      });
      await world.apply(platform());
      await world.reaches("Platform", "shop", "ClusterRefused");
      const more = { spec: { hard: { secrets: "5" } } };
      await kubernetes.call("PATCH", `${quotas}/few`, more, "application/merge-patch+json");
      await world.reaches("Platform", "shop", "Active", 60_000);
      expect(only(world.api.platforms).retired).toEqual([]);
    });
  },
);
