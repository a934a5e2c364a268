import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HELMS, helm } from "../../support/helm.ts";
import { type ChartCluster, missingCluster, startChartCluster } from "../cluster.ts";
import { CHART, helmIn, NAMESPACE, RELEASE } from "../render.ts";
import { mergeValues, VALUES, type Values } from "../values.ts";

const START_MS = 20 * 60_000;
const programs = await Promise.all(HELMS.map(async (version) => ({ version, ...(await helm(version)) })));
const missing =
  programs.find((program) => program.missing !== undefined)?.missing ?? (await missingCluster());
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

const STATEFUL = `/apis/apps/v1/namespaces/${NAMESPACE}/statefulsets`;
const sized = (keyvault: string, postgres: string): Values =>
  mergeValues(VALUES.trial ?? {}, {
    keyvault: { storage: { size: keyvault } },
    trial: { postgres: { storage: { size: postgres } } },
  });

/** Follows the steps of "Grow a volume" in the vault's runbook. Kubernetes itself grows the claim. */
describe.skipIf(missing !== undefined).each(programs)("a volume with helm $version", ({ path = "" }) => {
  let cluster: ChartCluster;
  beforeAll(async () => {
    cluster = await startChartCluster();
  }, START_MS);
  afterAll(() => cluster?.stop());

  const { run, succeeds } = helmIn(path, () => cluster.kubeconfig);
  /** Without a garbage collector, a deletion that orphans pods would never end. This cluster runs no pods. */
  const deleteStatefulSet = async (name: string) => {
    const { status } = await cluster.call("DELETE", `${STATEFUL}/${name}?propagationPolicy=Background`);
    expect(status).toBe(200);
  };
  const sizeOf = async (name: string) => {
    const { body } = await cluster.call("GET", `${STATEFUL}/${name}`);
    const { volumeClaimTemplates } = body.spec as {
      volumeClaimTemplates: { spec: { resources: { requests: { storage: string } } } }[];
    };
    return volumeClaimTemplates.map(({ spec }) => spec.resources.requests.storage);
  };

  test("an upgrade replaces a deleted StatefulSet by a larger one, and a rollback does the reverse", async () => {
    await succeeds(["install", RELEASE, CHART, "--no-hooks"], sized("1Gi", "1Gi"));
    for (const [values, path] of [
      [sized("5Gi", "1Gi"), "keyvault.storage"],
      [sized("1Gi", "5Gi"), "trial.postgres.storage"],
    ] as const) {
      const { isGood, err } = await run(["upgrade", RELEASE, CHART, "--no-hooks"], values);
      expect(err).toContain(
        `${path} has the size 5Gi and the storage class "", but the StatefulSet deputize-`,
      );
      expect(isGood).toBe(false);
    }
    await succeeds(["upgrade", RELEASE, CHART, "--no-hooks"], sized("1024Mi", "1048576Ki"));
    for (const name of ["deputize-keyvault", "deputize-postgres"]) await deleteStatefulSet(name);
    await succeeds(["upgrade", RELEASE, CHART, "--no-hooks"], sized("5Gi", "3Gi"));
    expect(await sizeOf("deputize-keyvault")).toEqual(["5Gi"]);
    expect(await sizeOf("deputize-postgres")).toEqual(["3Gi"]);
    for (const name of ["deputize-keyvault", "deputize-postgres"]) await deleteStatefulSet(name);
    await succeeds(["rollback", RELEASE, "1", "--no-hooks"]);
    expect(await sizeOf("deputize-keyvault")).toEqual(["1Gi"]);
  });
});
