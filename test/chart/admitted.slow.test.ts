import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { helm } from "../support/helm.ts";
import { type ChartCluster, missingCluster, startChartCluster } from "./cluster.ts";
import { nameOf, type Pod, podsOf, type Rendered, render } from "./render.ts";
import { VALUES } from "./values.ts";

const START_MS = 20 * 60_000;
const program = await helm("v4");
const missing = program.missing ?? (await missingCluster());
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

describe.skipIf(missing !== undefined)("an API server", () => {
  let cluster: ChartCluster;
  beforeAll(async () => {
    cluster = await startChartCluster();
  }, START_MS);
  afterAll(() => cluster?.stop());

  const refusals = async (objects: readonly Rendered[]) => {
    const refused: string[] = [];
    for (const object of objects) {
      const { status, body } = await cluster.admits(object);
      if (status !== 201) refused.push(`${nameOf(object)}: ${status} ${String(body.message)}`);
    }
    return refused;
  };

  test.each(Object.entries(VALUES))(
    "accepts all objects and pods of the chart with %s",
    async (_, values) => {
      for (const isUpgrade of [false, true]) {
        const objects = await render(program.path ?? "", values, { isUpgrade });
        expect(objects.length).toBeGreaterThan(10);
        expect(await refusals(objects)).toEqual([]);
        const pods = podsOf(objects).map(podOf);
        expect(pods.length).toBeGreaterThan(3);
        expect(await refusals(pods)).toEqual([]);
      }
    },
  );

  test("rejects pods that violate restricted Pod Security, and unknown fields", async () => {
    const [object] = await render(program.path ?? "", VALUES.trial ?? {});
    const container = { name: "open", image: "open" };
    const pod = { ...object, apiVersion: "v1", kind: "Pod", spec: { containers: [container] } } as Rendered;
    expect(await refusals([pod])).toEqual([
      expect.stringContaining('violates PodSecurity "restricted:latest"'),
    ]);
    const service = { ...object, apiVersion: "v1", kind: "Service", spec: { prots: [] } } as Rendered;
    expect(await refusals([service])).toEqual([expect.stringContaining("prots")]);
  });
});

/** Returns the pod that a controller would create. */
function podOf({ of, template }: Pod): Rendered {
  const claims: { metadata: { name: string } }[] = of.spec.volumeClaimTemplates ?? [];
  const volumes = claims.map(({ metadata: { name } }) => ({
    name,
    persistentVolumeClaim: { claimName: name },
  }));
  const { name, namespace } = of.metadata;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, ...(namespace !== undefined && { namespace }), labels: template.metadata.labels ?? {} },
    spec: { ...template.spec, volumes: [...(template.spec.volumes ?? []), ...volumes] },
  };
}
