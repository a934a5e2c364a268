import type { Kubectl } from "../../../plugin/kubectl.ts";

/** An object as it is applied. */
export type Manifest = {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; labels?: Record<string, string> };
  [field: string]: unknown;
};

/** Label of what the tour makes. */
export const TOUR_LABELS = { "app.kubernetes.io/managed-by": "deputize-tour" };

/** Has kubectl apply objects, in this order. Throws `KubectlFailure`. */
export async function apply(kubectl: Kubectl, items: readonly Manifest[]): Promise<void> {
  await kubectl.run(["apply", "--filename=-"], JSON.stringify({ apiVersion: "v1", kind: "List", items }));
}
