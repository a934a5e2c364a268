import { describe, expect, test } from "vitest";
import { helm } from "../support/helm.ts";
import { containersOf, nameOf, podsOf, type Rendered, render } from "./render.ts";
import { mergeValues, PRODUCTION, VALUES, type Values } from "./values.ts";

const program = await helm("v4");
if (program.missing !== undefined) console.error(`SKIPPED, missing: ${program.missing}`);

const HOSTS = [{ ip: "10.0.0.9", hostnames: ["db.internal"] }];
const DNS = { searches: ["corp.example.test"], options: [{ name: "ndots", value: "2" }] };
const DIGEST = `sha256:${"b".repeat(64)}`;
const ROLES = ["api", "operator", "worker", "migrate", "keyvault"];

/** Values that every team of a platform sets, for all pods of the chart. */
describe.skipIf(program.missing !== undefined)("values of a cluster", () => {
  const rendered = async (values: Values): Promise<Rendered[]> => {
    const both = [false, true].map((isUpgrade) => render(program.path ?? "", values, { isUpgrade }));
    return (await Promise.all(both)).flat();
  };
  const withBackup = mergeValues(PRODUCTION, {
    keyvault: { backup: { enabled: true, recoveryKey: { existingConfigMap: { name: "recovery" } } } },
  });

  test.each([
    ["a production release", withBackup],
    ["a trial", VALUES.trial ?? {}],
  ])("the values of the cluster are in all pods of %s", async (_, values) => {
    const global = { imageRegistry: "registry.example.test:5000/mirror", hostAliases: HOSTS, dnsConfig: DNS };
    const pods = podsOf(await rendered(mergeValues(values, { global })));
    expect(pods.length).toBeGreaterThan(12);
    for (const pod of pods) {
      expect(pod.template.spec, nameOf(pod.of)).toMatchObject({ hostAliases: HOSTS, dnsConfig: DNS });
      for (const { image } of containersOf(pod)) {
        expect(image).toMatch(
          /^registry\.example\.test:5000\/mirror\/deputize(-keyvault|-postgres)?:0\.1\.0$/,
        );
      }
    }
  });

  test.each([
    ["deputize", "r.test/deputize"],
    ["team/deputize", "r.test/team/deputize"],
    ["localhost/deputize", "r.test/deputize"],
    ["docker.io/team/deputize", "r.test/team/deputize"],
    ["registry:5000/team/deputize", "r.test/team/deputize"],
  ])("turn the repository %s into %s", async (repository, expected) => {
    const values = { global: { imageRegistry: "r.test" }, image: { repository, digest: DIGEST } };
    const objects = await render(program.path ?? "", mergeValues(PRODUCTION, values));
    const images = podsOf(objects).flatMap((pod) => containersOf(pod).map(({ image }) => image));
    expect(images).toContain(`${expected}@${DIGEST}`);
  });

  test.each([
    ["a production release", PRODUCTION],
    ["a trial", VALUES.trial ?? {}],
  ])("annotate the service accounts of %s, each with its role's annotations", async (_, values) => {
    const own = ROLES.map((role) => [role, { serviceAccountAnnotations: { "example.test/role": role } }]);
    const objects = await rendered(mergeValues(values, Object.fromEntries(own)));
    const accounts = objects.filter(({ kind }) => kind === "ServiceAccount");
    const found = new Set<string>();
    for (const { metadata } of accounts) {
      const component = metadata.labels?.["app.kubernetes.io/component"] ?? "";
      const role = metadata.annotations?.["example.test/role"];
      expect(role, metadata.name).toBe(ROLES.includes(component) ? component : undefined);
      if (role !== undefined) found.add(role);
    }
    expect([...found].sort()).toEqual([...ROLES].sort());
  });

  test("may contain any nameOverride that is a label, beside a full name", async () => {
    const objects = await rendered(
      mergeValues(PRODUCTION, { nameOverride: "Lend_1.x", fullnameOverride: "lend" }),
    );
    const labels = objects.map(({ metadata }) => metadata.labels?.["app.kubernetes.io/name"]);
    expect(new Set(labels)).toEqual(new Set(["Lend_1.x"]));
  });

  test("add objects of one's own, with the names of the release", async () => {
    const name = '{{ include "deputize.fullname" . }}-more';
    const object = { apiVersion: "v1", kind: "ConfigMap", metadata: { name, labels: { a: "b" } } };
    const objects = await rendered(
      mergeValues(PRODUCTION, { extraObjects: [{ ...object, data: { n: "1" } }] }),
    );
    const found = objects.find(({ metadata }) => metadata.name === "deputize-more");
    expect(found?.data).toEqual({ n: "1" });
    expect(found?.metadata.labels).toMatchObject({ a: "b", "app.kubernetes.io/instance": "deputize" });
  });
});
