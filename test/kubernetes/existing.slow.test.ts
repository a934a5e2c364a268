import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { FINALIZER } from "../../src/operator/kinds.ts";
import { platform } from "../operator/operator_folder.ts";
import { kubernetesBinary } from "../support/kubernetes/binary.ts";
import { installDefinitions } from "../support/kubernetes/definitions.ts";
import { openExisting } from "../support/kubernetes/existing.ts";
import { kubeconfigText } from "../support/kubernetes/kubeconfig.ts";
import { installPolicies } from "../support/kubernetes/policies.ts";
import { type Kubernetes, startKubernetes } from "../support/kubernetes/server.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const NAMESPACES = "/api/v1/namespaces";
const binary = await kubernetesBinary();
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

describe.skipIf(binary.missing !== undefined)(
  "the existing cluster in KUBECONFIG_TEST",
  { timeout: 60_000 },
  () => {
    let kubernetes: Kubernetes;
    let folder: string;
    let kubeconfig: string;

    beforeAll(async () => {
      kubernetes = await startKubernetes(binary.path ?? "");
      folder = await mkdtemp(join(tmpdir(), "deputize-kubeconfig-"));
      kubeconfig = join(folder, "config");
      await writeFile(kubeconfig, kubeconfigText(kubernetes, { token: kubernetes.adminToken }));
    }, BUILD_TIMEOUT_MS);
    afterAll(async () => {
      await kubernetes?.stop();
      if (folder !== undefined) await rm(folder, { recursive: true });
    });

    const names = async (path: string): Promise<string[]> => {
      const { body } = await kubernetes.call("GET", path);
      const items = body.items as { metadata: { name: string; deletionTimestamp?: string } }[];
      return items.filter(({ metadata }) => !metadata.deletionTimestamp).map(({ metadata }) => metadata.name);
    };

    test("loses everything that the tests created, including finalizers, and keeps everything else", async () => {
      await kubernetes.call("POST", NAMESPACES, { metadata: { name: "theirs" } });
      const before = await names(NAMESPACES);
      const tests = await openExisting(kubeconfig);
      await installDefinitions(tests);
      await installPolicies(tests);
      expect((await tests.call("POST", NAMESPACES, { metadata: { name: "theirs" } })).status).toBe(409);
      await tests.call("POST", NAMESPACES, { metadata: { name: "ours" } });
      const manifest = platform({}, { name: "shop", namespace: "ours", finalizers: [FINALIZER] });
      const folder = "/apis/deputize.io/v1alpha1/namespaces/ours/platforms";
      expect((await tests.call("POST", folder, manifest)).status).toBe(201);
      expect((await tests.as({ name: "ann" })("GET", folder)).status).toBe(403);
      await tests.stop();
      expect(await names(NAMESPACES)).toEqual(before);
      expect(await names(folder)).toEqual([]);
      const bindings = await names("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings");
      expect(bindings.filter((name) => name.startsWith("deputize-test"))).toEqual([]);
    });

    test("stays unchanged and causes an error if an operator already leads there", async () => {
      const leases = "/apis/coordination.k8s.io/v1/namespaces/theirs/leases";
      const renewTime = systemClock.now().toISOString().replace("Z", "000Z");
      await kubernetes.call("POST", leases, {
        metadata: { name: "deputize-operator" },
        spec: { holderIdentity: "pod-1", renewTime },
      });
      await expect(openExisting(kubeconfig)).rejects.toThrow(
        "KUBECONFIG_TEST names a cluster where an operator leads, in namespace theirs",
      );
      expect((await names(NAMESPACES)).filter((name) => name.startsWith("deputize-test"))).toEqual([]);
    });
  },
);
