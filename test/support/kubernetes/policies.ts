import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { DEFAULT_OPERATOR } from "../../../src/kubernetes/policies.ts";
import { until } from "../process.ts";
import type { Kubernetes } from "./server.ts";

const GROUP = "/apis/admissionregistration.k8s.io/v1";
const KINDS: Record<string, string> = {
  ValidatingAdmissionPolicy: "validatingadmissionpolicies",
  ValidatingAdmissionPolicyBinding: "validatingadmissionpolicybindings",
};

export const OPERATOR = {
  name: DEFAULT_OPERATOR,
};

export function policyPath(kind: keyof typeof KINDS, name: string): string {
  return `${GROUP}/${KINDS[kind]}/${name}`;
}

/**
 * Applies `crds/policies.yaml`. Resolves when the API server rejects probe requests, which shows that it
 * enforces all policies.
 */
export async function installPolicies(kubernetes: Kubernetes, operator = DEFAULT_OPERATOR): Promise<void> {
  const file = await readFile(join(import.meta.dirname, "../../../crds/policies.yaml"), "utf8");
  const text = file.replaceAll(DEFAULT_OPERATOR, operator);
  for (const document of parseAllDocuments(text)) {
    const policy = document.toJS() as { kind: keyof typeof KINDS; metadata: { name: string } };
    const path = policyPath(policy.kind, policy.metadata.name);
    const query = "fieldManager=test&force=true&fieldValidation=Strict";
    const { status, body } = await kubernetes.call(
      "PATCH",
      `${path}?${query}`,
      policy,
      "application/apply-patch+yaml",
    );
    if (status >= 300) {
      throw new Error(`${policy.metadata.name} was refused: ${status} ${String(body.message)}`);
    }
  }
  const definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/platforms.deputize.io";
  await until("the policies are enforced", async () => {
    const probe = await kubernetes.call("DELETE", `${definition}?dryRun=All`);
    return probe.status === 403;
  });
  const asOperator = kubernetes.as({ name: operator, group: "system:masters" });
  await until("the policies of Secrets are enforced", async () => {
    const probe = { metadata: { generateName: "probe-" } };
    const { status } = await asOperator("POST", "/api/v1/namespaces/default/secrets?dryRun=All", probe);
    return status === 403;
  });
}
