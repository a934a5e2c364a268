import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { until } from "../process.ts";
import type { Kubernetes, KubernetesAnswer } from "./server.ts";

/** Time that a busy machine may take, in milliseconds. */
const SETUP_MS = 60_000;

export const definitions = ["platforms", "agents", "delegations"];

/** Applies the custom resource definitions. Resolves when the API server serves their objects. */
export async function installDefinitions(kubernetes: Kubernetes): Promise<void> {
  for (const resource of definitions) await apply(kubernetes, resource);
  for (const resource of definitions) {
    const path = `/apis/deputize.io/v1alpha1/${resource}`;
    const isServed = async () => (await kubernetes.call("GET", path)).status === 200;
    await until(`${resource} are served`, isServed, SETUP_MS);
  }
}

/** Repeats the call while the API server is too busy or not ready. */
async function apply(kubernetes: Kubernetes, resource: string): Promise<void> {
  const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${resource}.deputize.io`;
  const query = "fieldManager=test&force=true&fieldValidation=Strict";
  const text = await readFile(join(import.meta.dirname, `../../../crds/${resource}.yaml`), "utf8");
  let answer: KubernetesAnswer | undefined;
  await until(
    `the definition of ${resource} is applied`,
    async () => {
      answer = await kubernetes.call("PATCH", `${path}?${query}`, text, "application/apply-patch+yaml");
      return answer.status !== 429 && answer.status < 500;
    },
    SETUP_MS,
  );
  if (answer !== undefined && answer.status >= 300) {
    throw new Error(`${resource} were refused: ${answer.status} ${String(answer.body.message)}`);
  }
}
