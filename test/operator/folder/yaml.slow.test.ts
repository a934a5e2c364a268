import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { type Kubernetes, startKubernetes } from "../../support/kubernetes/server.ts";
import { manifestOf, yamlCases } from "./yaml_cases.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const binary = await kubernetesBinary();
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

/** A kind with an arbitrary spec. Its objects show how kubectl and the API server read a manifest. */
const thing = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "things.test.deputize.io" },
  spec: {
    group: "test.deputize.io",
    scope: "Namespaced",
    names: { kind: "Thing", plural: "things", singular: "thing" },
    versions: [
      {
        name: "v1",
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: "object",
            properties: { spec: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
          },
        },
      },
    ],
  },
};

describe.skipIf(binary.missing !== undefined)("Kubernetes' YAML reader", () => {
  const things = "/apis/test.deputize.io/v1/namespaces/default/things";
  let kubernetes: Kubernetes;
  let unused = 0;

  beforeAll(async () => {
    kubernetes = await startKubernetes(binary.path ?? "");
    await kubernetes.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", thing);
    while (!(await isServed())) await sleep(100);
  }, BUILD_TIMEOUT_MS);

  afterAll(() => kubernetes?.stop());

  /** Returns whether the API server serves the kind. If not, its answer is plain text. */
  async function isServed(): Promise<boolean> {
    return kubernetes.call("GET", things).then(
      ({ status }) => status === 200,
      () => false,
    );
  }

  test.each(yamlCases)("$name", async (yamlCase) => {
    const text = manifestOf(yamlCase, `thing-${unused++}`);
    const answer = await kubernetes.call("POST", things, text, "application/yaml");
    const isTaken = yamlCase.spec !== undefined || yamlCase.onlyFolderRefuses === true;
    expect(answer.status < 300, JSON.stringify(answer.body)).toBe(isTaken);
    if (yamlCase.spec !== undefined) expect(answer.body.spec).toEqual(yamlCase.spec);
  });
});
