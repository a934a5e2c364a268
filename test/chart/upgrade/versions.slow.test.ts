import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HELMS, helm } from "../../support/helm.ts";
import { type ChartCluster, missingCluster, startChartCluster } from "../cluster.ts";
import { EXAMPLE } from "../production/files.ts";
import {
  CHART,
  helmWithValues,
  NAMESPACE,
  nameOf,
  podsOf,
  RELEASE,
  type Rendered,
  render,
} from "../render.ts";
import { mergeValues, VALUES, type Values } from "../values.ts";
import { type Copy, nextVersion } from "./copies.ts";

const START_MS = 20 * 60_000;
const programs = await Promise.all(HELMS.map(async (version) => ({ version, ...(await helm(version)) })));
const missing =
  programs.find((program) => program.missing !== undefined)?.missing ?? (await missingCluster());
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);
const path = programs.at(-1)?.path ?? "";

/** Fixed images, which do not depend on the chart's version. */
const IMAGES: Values = {
  image: { tag: "kept" },
  keyvault: { image: { tag: "kept" } },
  trial: { postgres: { image: { tag: "kept" } } },
};
const TABLE = Object.entries(VALUES).map(([name, values]): [string, Values] => [
  name,
  mergeValues(values, IMAGES),
]);
const ROLES = ["deployments", "statefulsets"];

let next: Copy;
beforeAll(async () => {
  next = await nextVersion();
});
afterAll(() => next?.remove());

describe.skipIf(missing !== undefined)("the chart's next version", () => {
  const bothOf = async (values: Values) => {
    const before = await render(path, values, { isUpgrade: true });
    const after = await render(path, values, { isUpgrade: true, chart: next.chart });
    return { before, after };
  };

  test.each(TABLE)("keeps the pods of %s unchanged if their images are unchanged", async (_, values) => {
    const { before, after } = await bothOf(values);
    const templates = (objects: Rendered[]) =>
      podsOf(objects)
        .filter(({ of }) => of.kind !== "Pod")
        .map(({ of, template }) => [nameOf(of), template]);
    expect(templates(before).length).toBeGreaterThan(3);
    expect(templates(after)).toEqual(templates(before));
    expect(JSON.stringify(after)).toContain("9.9.9");
  });

  test.each(TABLE)("keeps immutable fields of %s unchanged", async (_, values) => {
    const { before, after } = await bothOf(values);
    const fixed = (objects: Rendered[]) =>
      objects
        .filter(({ kind }) =>
          ["StatefulSet", "Deployment", "PersistentVolumeClaim", "Service"].includes(kind),
        )
        .map(({ kind, metadata, spec }) => {
          const { selector, serviceName, podManagementPolicy, volumeClaimTemplates, clusterIP } = spec;
          const claim = kind === "PersistentVolumeClaim" ? spec : undefined;
          return {
            name: metadata.name,
            selector,
            serviceName,
            podManagementPolicy,
            volumeClaimTemplates,
            clusterIP,
            claim,
          };
        });
    expect(fixed(after)).toEqual(fixed(before));
  });

  test("changes only the components' images if the images follow the chart's version", async () => {
    const { before, after } = await bothOf(VALUES.production ?? {});
    const text = (objects: Rendered[]) =>
      podsOf(objects).map(({ of, template }) => [nameOf(of), JSON.stringify(template.spec)]);
    const changed = text(before).map(([name, spec = ""]) => [name, spec.replaceAll(":0.1.0", ":9.9.9")]);
    expect(text(after)).toEqual(changed);
  });
});

describe.skipIf(missing !== undefined).each(programs)("an upgrade with helm $version", ({ path = "" }) => {
  let cluster: ChartCluster;
  beforeAll(async () => {
    cluster = await startChartCluster();
  }, START_MS);
  afterAll(() => cluster?.stop());

  /** Runs Helm without hooks, because hooks need running pods and this cluster runs none. */
  const run = async (command: string, chart: string, values?: Values) => {
    const args = [command, RELEASE, ...(chart === "" ? [] : [chart]), "--namespace", NAMESPACE, "--no-hooks"];
    const { isGood, err } = await helmWithValues(path, args, values, { KUBECONFIG: cluster.kubeconfig });
    expect(isGood, err).toBe(true);
  };
  const generations = async () => {
    const lists = ROLES.map(async (resource) => {
      const { body } = await cluster.call("GET", `/apis/apps/v1/namespaces/${NAMESPACE}/${resource}`);
      return (body.items as { metadata: { name: string; generation: number; labels: object } }[]).map(
        ({ metadata: { name, generation, labels } }) => ({ name: `${resource}/${name}`, generation, labels }),
      );
    });
    return (await Promise.all(lists)).flat();
  };

  test.each([
    ["a production release", EXAMPLE],
    ["a trial", VALUES.trial ?? {}],
  ])("restarts nothing in %s if only the version changes", async (_, values) => {
    const kept = mergeValues(values, IMAGES);
    await run("install", CHART, kept);
    const before = await generations();
    expect(before.length).toBeGreaterThan(3);
    await run("upgrade", next.chart, kept);
    const after = await generations();
    const numbers = (all: typeof before) => all.map(({ name, generation }) => [name, generation]);
    expect(numbers(after)).toEqual(numbers(before));
    for (const { labels } of after) expect(labels).toMatchObject({ "app.kubernetes.io/version": "9.9.9" });
    await run("uninstall", "");
  });
});
