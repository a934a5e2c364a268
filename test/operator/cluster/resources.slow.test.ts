import { afterAll, beforeAll, describe } from "vitest";
import { kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { installDefinitions } from "../../support/kubernetes/definitions.ts";
import { type Kubernetes, startKubernetes } from "../../support/kubernetes/server.ts";
import { describeResources } from "../describe_resources.ts";
import { clusterHarness } from "./cluster_harness.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const binary = await kubernetesBinary();
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

describe.skipIf(binary.missing !== undefined)("on a real API server", () => {
  let kubernetes: Kubernetes;

  beforeAll(async () => {
    kubernetes = await startKubernetes(binary.path ?? "");
    await installDefinitions(kubernetes);
  }, BUILD_TIMEOUT_MS);

  afterAll(() => kubernetes?.stop());

  describeResources("a cluster", () => clusterHarness(kubernetes));
});
