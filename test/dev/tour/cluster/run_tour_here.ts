import type { ClusterTourOptions } from "../../../../src/dev/tour/cluster/options.ts";
import { RECEIVER } from "../../../../src/dev/tour/cluster/receiver_pod.ts";
import { type Reach, runClusterTour } from "../../../../src/dev/tour/cluster/tour.ts";
import { startReceiverProcess } from "./receiver_process.ts";

/** Runs the tour in a cluster without running pods. A local process replaces the receiver's pod. */
const [options = "{}", apiUrl = ""] = process.argv.slice(2);
const usual = { release: "deputize", releaseNamespace: "deputize-system", webhooks: true, timeout: "60" };
const reach: Reach = {
  forward: async () => ({ url: apiUrl, close: async () => undefined }),
  async receiver({ kubectl }) {
    if ((await kubectl.find("pods", RECEIVER)) === undefined) throw new Error("there is no pod");
    const { webhooksUrl, deliveriesUrl, stop } = await startReceiverProcess();
    return { url: webhooksUrl, deliveries: { url: deliveriesUrl, close: async () => void (await stop()) } };
  },
};
process.exitCode = await runClusterTour(
  { ...usual, ...JSON.parse(options) } as ClusterTourOptions,
  () => reach,
);
