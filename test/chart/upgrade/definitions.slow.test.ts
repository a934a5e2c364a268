import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HELMS, helm } from "../../support/helm.ts";
import { kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { kubeconfigText } from "../../support/kubernetes/kubeconfig.ts";
import { type Kubernetes, startKubernetes } from "../../support/kubernetes/server.ts";
import { until } from "../../support/process.ts";
import { CHART, helmWithValues, NAMESPACE, RELEASE } from "../render.ts";
import { VALUES } from "../values.ts";
import { type Copy, copyOfChart } from "./copies.ts";

const START_MS = 20 * 60_000;
const programs = await Promise.all(HELMS.map(async (version) => ({ version, ...(await helm(version)) })));
const binary = await kubernetesBinary();
const missing = [...programs, binary].find((program) => program.missing !== undefined)?.missing;
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

const API = "/apis/deputize.io/v1alpha1";
const OPERATOR = `system:serviceaccount:${NAMESPACE}:deputize-operator`;
const FIELD = "adopt";
const ADOPT = "01234567-89ab-4def-8123-456789abcdef";
const platform = (name: string, spec: object = {}) => ({
  apiVersion: "deputize.io/v1alpha1",
  kind: "Platform",
  metadata: { name, namespace: "shop" },
  spec: { displayName: "Shop", surfaceType: "agentic_api", defaultAllowedScopes: ["data:read"], ...spec },
});

type Definition = {
  spec: {
    versions: {
      schema: { openAPIV3Schema: { properties: { spec: { properties: Record<string, unknown> } } } };
    }[];
  };
};

/** Copies the chart as a former release, whose definitions lack one field. */
const formerChart = (): Promise<Copy> =>
  copyOfChart({
    "crds/platforms.yaml": ({ spec }: Definition) => {
      for (const { schema } of spec.versions) {
        const { properties } = schema.openAPIV3Schema.properties.spec;
        expect(properties).toHaveProperty(FIELD);
        delete properties[FIELD];
      }
    },
  });

describe.skipIf(missing !== undefined).each(programs)(
  "definitions that helm $version installed and kubectl upgraded",
  ({ path = "" }) => {
    let kubernetes: Kubernetes;
    let former: Copy;
    let folder: string;
    const kubeconfig = () => join(folder, "config");

    const release = async (command: string, chart: string) => {
      const args = [command, RELEASE, chart, "--namespace", NAMESPACE, "--no-hooks"];
      const { isGood, err } = await helmWithValues(path, args, VALUES.trial, { KUBECONFIG: kubeconfig() });
      expect(isGood, err).toBe(true);
    };
    const apply = (...flags: string[]) =>
      new Promise<{ isGood: boolean; err: string }>((resolve) => {
        const args = ["kubectl", "apply", "--server-side", ...flags, "-f", join(CHART, "crds")];
        const env = { HOME: folder, KUBECONFIG: kubeconfig() };
        execFile(binary.path ?? "", args, { env }, (error, _, err) =>
          resolve({ isGood: error === null, err }),
        );
      });
    const create = async (object: object, query = "") => {
      const place = `${API}/namespaces/shop/platforms?fieldValidation=Strict${query}`;
      return kubernetes.call("POST", place, object);
    };
    const all = async () => (await kubernetes.call("GET", `${API}/platforms`)).body.items;
    const knowsField = async () => {
      const definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/platforms.deputize.io";
      return JSON.stringify((await kubernetes.call("GET", definition)).body).includes(`"${FIELD}":`);
    };

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), "deputize-definitions-"));
      former = await formerChart();
      kubernetes = await startKubernetes(binary.path ?? "");
      await writeFile(kubeconfig(), kubeconfigText(kubernetes, { token: kubernetes.adminToken }), {
        mode: 0o600,
      });
      for (const name of [NAMESPACE, "shop"]) {
        await kubernetes.call("POST", "/api/v1/namespaces", { metadata: { name } });
      }
      await release("install", former.chart);
      await until("Platforms are served", async () => {
        return (await kubernetes.call("GET", `${API}/platforms`)).status === 200;
      });
    }, START_MS);
    afterAll(async () => {
      await kubernetes?.stop();
      await former?.remove();
      await rm(folder, { recursive: true, force: true });
    });

    test("keep every object and its status, have the new field, and are not changed by helm afterwards", async () => {
      expect((await create(platform("shop"))).status).toBe(201);
      const status = { conditions: [], observedGeneration: 1 };
      const asOperator = kubernetes.as({ name: OPERATOR, group: "system:masters" });
      const written = await asOperator(
        "PATCH",
        `${API}/namespaces/shop/platforms/shop/status`,
        { status },
        "application/merge-patch+json",
      );
      expect(written.status).toBe(200);
      const refused = await create(platform("new", { [FIELD]: ADOPT }));
      expect(refused.body.message).toContain(`unknown field "spec.${FIELD}"`);
      const before = await all();
      expect(before).toMatchObject([{ metadata: { name: "shop" }, status }]);

      const plain = await apply();
      expect(plain.err).toContain('conflict with "helm"');
      expect(plain.isGood).toBe(false);
      expect(await knowsField()).toBe(false);

      expect(await apply("--force-conflicts")).toMatchObject({ isGood: true });
      expect(await knowsField()).toBe(true);
      await until("the field is accepted", async () => {
        return (await create(platform("new", { [FIELD]: ADOPT }), "&dryRun=All")).status === 201;
      });
      expect(await all()).toEqual(before);
      // The running version continues to work, because the new field is optional.
      expect((await create(platform("former"), "&dryRun=All")).status).toBe(201);

      await release("upgrade", CHART);
      expect(await knowsField()).toBe(true);
      expect(await all()).toEqual(before);
      expect(await apply()).toMatchObject({ isGood: true });
    });
  },
);
