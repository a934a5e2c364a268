import { expect, test } from "vitest";
import type { AnyObject } from "../../../src/operator/kinds.ts";
import { startFakeKubernetes } from "../../support/kubernetes/fake_server.ts";
import { until } from "../../support/process.ts";
import { only, platform } from "../operator_folder.ts";
import { operatorCluster } from "./operator_cluster.ts";

const statusOf = ({ status }: AnyObject, type: string) =>
  status.conditions?.find((condition) => condition.type === type)?.status;

test.each([500, 503, 403])(
  "a Platform never claims that its Secret holds credentials while the cluster answers %i to the write",
  async (status) => {
    const kubernetes = await startFakeKubernetes();
    const world = await operatorCluster(kubernetes);
    try {
      await world.start();
      await world.apply(platform());
      await world.reaches("Platform", "shop", "Active");
      kubernetes.setRule((method, path) =>
        method === "POST" && path.includes("/secrets") ? { status } : undefined,
      );
      await world.removeSecret("shop-credentials");
      const failed = await world.reaches("Platform", "shop", "ClusterRefused");
      expect(["Ready", "CredentialsPublished"].map((type) => statusOf(failed, type))).toEqual([
        "False",
        "Unknown",
      ]);
      expect(await world.secret("shop-credentials")).toBeUndefined();
      kubernetes.setRule();
      await world.apply(platform({ displayName: "Touched" }));
      await until("it is active again", async () => {
        const again = await world.reaches("Platform", "shop", "Active");
        return statusOf(again, "CredentialsPublished") === "True";
      });
      expect((await world.secret("shop-credentials"))?.api_key).toBe(only(world.api.platforms).api_key);
    } finally {
      await world.dispose();
      await kubernetes.stop();
    }
  },
);
