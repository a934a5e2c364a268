import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HELMS, helm } from "../../support/helm.ts";
import { type ChartCluster, missingCluster, startChartCluster } from "../cluster.ts";
import { CHART, helmIn, NAMESPACE, RELEASE } from "../render.ts";
import { mergeValues, PRODUCTION, VALUES, type Values } from "../values.ts";

const START_MS = 20 * 60_000;
const programs = await Promise.all(HELMS.map(async (version) => ({ version, ...(await helm(version)) })));
const missing =
  programs.find((program) => program.missing !== undefined)?.missing ?? (await missingCluster());
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

const BACKUP: Values = {
  keyvault: { backup: { enabled: true, recoveryKey: { existingConfigMap: { name: "recovery" } } } },
};
const tagged = (tag: string): Values => ({ image: { tag }, keyvault: { image: { tag } } });
const scaled = (enabled: boolean): Values =>
  mergeValues(PRODUCTION, { api: { replicas: 4, autoscaling: { enabled } } });

type Job = { metadata: { name: string }; spec: { ttlSecondsAfterFinished?: number } };

describe.skipIf(missing !== undefined).each(programs)("a release with helm $version", (program) => {
  const { path = "", version } = program;
  let cluster: ChartCluster;
  beforeAll(async () => {
    cluster = await startChartCluster();
  }, START_MS);
  afterAll(() => cluster?.stop());

  const { run, succeeds } = helmIn(path, () => cluster.kubeconfig);
  /** Runs helm without hooks, because hooks need running pods and this cluster runs none. */
  const change = (command: string, values: Values) =>
    succeeds([command, RELEASE, CHART, "--no-hooks"], values);
  const rollback = (revision: number) => succeeds(["rollback", RELEASE, String(revision), "--no-hooks"]);
  const jobs = async () => {
    const { body } = await cluster.call("GET", `/apis/batch/v1/namespaces/${NAMESPACE}/jobs`);
    return (body.items as Job[]).filter(({ metadata }) => /-trial-migrate$|-backup-/.test(metadata.name));
  };
  const namesOf = async () => (await jobs()).map(({ metadata }) => metadata.name).sort();

  test("a rollback succeeds after the first and the second upgrade failed in a hook", async () => {
    const trial = mergeValues(VALUES.trial ?? {}, BACKUP);
    await change("install", mergeValues(trial, tagged("one")));
    const first = await namesOf();
    expect(first).toEqual([expect.stringMatching(/backup/), "deputize-trial-migrate"]);

    const failing = async (tag: string) => {
      const args = ["upgrade", RELEASE, CHART, "--timeout", "3s"];
      const { isGood, err } = await run(args, mergeValues(trial, tagged(tag)));
      expect(err).toMatch(/hooks? failed|timed out|deadline exceeded/);
      expect(isGood).toBe(false);
    };
    await failing("two");
    await rollback(1);
    expect(await namesOf()).toEqual(first);

    await change("upgrade", mergeValues(trial, tagged("two")));
    const second = await namesOf();
    expect(second).toHaveLength(3);
    expect(second).toEqual(expect.arrayContaining(first));
    const ends = (await jobs()).map(({ spec }) => spec.ttlSecondsAfterFinished);
    expect(ends.filter((seconds) => seconds !== undefined)).toHaveLength(2);
    for (const seconds of ends) expect(seconds ?? 86_400).toBeGreaterThanOrEqual(86_400);

    await failing("three");
    await rollback(4);
    expect(await namesOf()).toEqual(second);
    await succeeds(["uninstall", RELEASE, "--no-hooks"]);
  });

  test("an upgrade deletes a Job of an earlier version that failed", async () => {
    const trial = mergeValues(VALUES.trial ?? {}, BACKUP);
    await change("install", mergeValues(trial, tagged("one")));
    const name = "deputize-trial-migrate";
    const at = new Date().toISOString();
    const conditions = ["FailureTarget", "Failed"].map((type) => ({
      ...{ type, status: "True", reason: "DeadlineExceeded", lastTransitionTime: at },
    }));
    const { status, body } = await cluster.call(
      "PATCH",
      `/apis/batch/v1/namespaces/${NAMESPACE}/jobs/${name}/status`,
      { status: { startTime: at, failed: 1, conditions } },
      "application/merge-patch+json",
    );
    expect(status, JSON.stringify(body)).toBe(200);
    await change("upgrade", mergeValues(trial, tagged("two")));
    expect(await namesOf()).not.toContain(name);
    await succeeds(["uninstall", RELEASE, "--no-hooks"]);
  });

  const deployment = `/apis/apps/v1/namespaces/${NAMESPACE}/deployments/deputize-api`;
  const replicas = async () => (await cluster.call("GET", deployment)).body.spec as { replicas: number };
  /** Changes the number of pods like an autoscaler. */
  const scale = async (count: number) => {
    const target = `${deployment}/scale?fieldManager=kube-controller-manager`;
    const { body } = await cluster.call("GET", target);
    const { status } = await cluster.call("PUT", target, { ...body, spec: { replicas: count } });
    expect(status).toBe(200);
  };

  test("an upgrade keeps the number of API pods when the values turn autoscaling on, and never sets it later", async () => {
    await change("install", scaled(false));
    expect(await replicas()).toMatchObject({ replicas: 4 });
    await change("upgrade", scaled(true));
    expect(await replicas()).toMatchObject({ replicas: 4 });
    await change("upgrade", scaled(true));
    expect(await replicas()).toMatchObject({ replicas: 4 });
    for (const count of [6, 3]) {
      await scale(count);
      await change("upgrade", scaled(true));
      expect(await replicas()).toMatchObject({ replicas: count });
    }
    // With Helm 4, the API server protects the autoscaler's field.
    const forced = version === "v4" ? ["--force-conflicts"] : [];
    await succeeds(["upgrade", RELEASE, CHART, "--no-hooks", ...forced], scaled(false));
    expect(await replicas()).toMatchObject({ replicas: 4 });
    await succeeds(["uninstall", RELEASE, "--no-hooks"]);
  });

  test("an installation leaves the number of API pods to the autoscaler from the start", async () => {
    await change("install", scaled(true));
    for (const count of [5, 2]) {
      await scale(count);
      await change("upgrade", scaled(true));
      expect(await replicas()).toMatchObject({ replicas: count });
    }
    await scale(6);
    await rollback(1);
    expect(await replicas()).toMatchObject({ replicas: 6 });
    await succeeds(["uninstall", RELEASE, "--no-hooks"]);
  });

  test("an installation fails early while a watched namespace is missing", async () => {
    const values = mergeValues(PRODUCTION, { operator: { watchNamespaces: ["shop", "absent"] } });
    const { isGood, err } = await run(["install", RELEASE, CHART], values);
    expect(err).toContain("operator.watchNamespaces has absent, and the cluster has no such namespace.");
    expect(isGood).toBe(false);
    expect((await cluster.call("GET", deployment)).status).toBe(404);
    const secrets = await cluster.call("GET", `/api/v1/namespaces/${NAMESPACE}/secrets`);
    expect(JSON.stringify(secrets.body)).not.toContain("sh.helm.release");
  });
});
