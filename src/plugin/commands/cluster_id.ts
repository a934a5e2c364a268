import { type Context, operatorNamespaceOf } from "../command.ts";
import { KubectlFailure, type KubernetesObject } from "../kubectl.ts";

const NAME = "deputize-cluster";

/** The id that the operator recorded after the API accepted it, or why it is unknown. */
type Found = { place: string } & (
  | { id: string; fault?: never }
  | { id?: never; fault: "missing" | "forbidden" }
);

/** Reads the cluster id from the operator's record. Throws `KubectlFailure` for any other failure. */
export async function readClusterId({
  kubectl,
  options,
}: Pick<Context, "kubectl" | "options">): Promise<Found> {
  const namespace = operatorNamespaceOf(options);
  const place = `${namespace}/${NAME}`;
  try {
    const { data } = await kubectl.json<KubernetesObject & { data?: Record<string, string> }>([
      ...["get", "configmap", NAME, "-n", namespace],
    ]);
    const id = data?.clusterID ?? "";
    return id === "" ? { place, fault: "missing" } : { place, id };
  } catch (error) {
    if (!(error instanceof KubectlFailure)) throw error;
    if (error.isMissing) return { place, fault: "missing" };
    if (error.isForbidden) return { place, fault: "forbidden" };
    throw error;
  }
}
