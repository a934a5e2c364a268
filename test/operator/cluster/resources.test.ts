import { startFakeKubernetes } from "../../support/kubernetes/fake_server.ts";
import { describeResources } from "../describe_resources.ts";
import { clusterHarness } from "./cluster_harness.ts";

describeResources("a cluster with a fake API server", async () => {
  const kubernetes = await startFakeKubernetes();
  const harness = await clusterHarness(kubernetes);
  return {
    ...harness,
    async close() {
      await harness.close();
      await kubernetes.stop();
    },
  };
});
