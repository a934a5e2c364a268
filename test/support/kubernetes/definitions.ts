import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Kubernetes } from "./server.ts";

export const definitions = ["platforms", "agents", "delegations"];

/** Applies the custom resource definitions. Resolves when the API server serves their objects. */
export async function installDefinitions(kubernetes: Kubernetes): Promise<void> {
  for (const resource of definitions) {
    const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${resource}.deputize.io`;
    const text = await readFile(join(import.meta.dirname, `../../../crds/${resource}.yaml`), "utf8");
    const query = "fieldManager=test&force=true&fieldValidation=Strict";
    const { status, body } = await kubernetes.call(
      "PATCH",
      `${path}?${query}`,
      text,
      "application/apply-patch+yaml",
    );
    if (status >= 300) throw new Error(`${resource} were refused: ${status} ${String(body.message)}`);
  }
  for (const resource of definitions) await served(kubernetes, resource);
}

async function served(kubernetes: Kubernetes, resource: string): Promise<void> {
  for (let tries = 0; tries < 100; tries += 1) {
    const answer = await kubernetes.call("GET", `/apis/deputize.io/v1alpha1/${resource}`);
    if (answer.status === 200) return;
    await sleep(100);
  }
  throw new Error(`${resource} were not served`);
}
