import type { Kubernetes } from "../../support/kubernetes/server.ts";

/** Number of objects of each kind, and number of namespaces that contain them. */
export type Crowd = { namespaces: number; platforms: number; agents: number; delegations: number };

const GROUP = "/apis/deputize.io/v1alpha1";
const CONCURRENT = 16;

/** Runs `work` for all items, several of them concurrently. */
export async function each<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const rest = items.values();
  const run = async (): Promise<void> => {
    for (const item of rest) await work(item);
  };
  await Promise.all(Array.from({ length: CONCURRENT }, run));
}

export function namespaceName(index: number): string {
  return `bench-${index}`;
}

/** Returns the API path of all objects of a kind, in the cluster or in one namespace. */
export function collection(kind: "platforms" | "agents" | "delegations", namespace?: string): string {
  return namespace === undefined ? `${GROUP}/${kind}` : `${GROUP}/namespaces/${namespace}/${kind}`;
}

/** Returns names numbered from 0, spread evenly over the namespaces. */
function spread(prefix: string, count: number, namespaces: number) {
  return Array.from({ length: count }, (_, index) => ({
    name: `${prefix}-${index}`,
    namespace: namespaceName(index % namespaces),
    index,
  }));
}

/** Creates all objects in the cluster. */
export async function declareCrowd(kubernetes: Kubernetes, crowd: Crowd): Promise<void> {
  const { namespaces, platforms, agents, delegations } = crowd;
  const post = async (path: string, object: object): Promise<void> => {
    const { status, body } = await kubernetes.call("POST", path, object);
    if (status !== 201) throw new Error(`${path}: ${status} ${String(body.message)}`);
  };
  const object = (kind: string, { name, namespace }: { name: string; namespace: string }, spec: object) => ({
    apiVersion: "deputize.io/v1alpha1",
    kind,
    metadata: { name, namespace },
    spec,
  });
  await each(spread("bench", namespaces, namespaces), ({ namespace }) =>
    post("/api/v1/namespaces", { metadata: { name: namespace } }),
  );
  await each(spread("p", platforms, namespaces), (of) =>
    post(
      collection("platforms", of.namespace),
      object("Platform", of, {
        displayName: `Platform ${of.index}`,
        surfaceType: "agentic_api",
        defaultAllowedScopes: ["data:read", "payments:send"],
      }),
    ),
  );
  await each(spread("a", agents, namespaces), (of) =>
    post(
      collection("agents", of.namespace),
      object("Agent", of, { platformRef: { name: `p-${of.index % platforms}` }, agentType: "api_agent" }),
    ),
  );
  await each(spread("d", delegations, namespaces), (of) =>
    post(
      collection("delegations", of.namespace),
      object("Delegation", of, {
        platformRef: { name: `p-${of.index % platforms}` },
        agentRef: { name: `a-${of.index % agents}` },
        scopes: ["data:read"],
        ttl: "720h",
      }),
    ),
  );
}
