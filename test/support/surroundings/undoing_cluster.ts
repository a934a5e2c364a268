import { setTimeout as sleep } from "node:timers/promises";
import type { KubernetesCalls } from "../kubernetes/server.ts";

const GROUP = "/apis/admissionregistration.k8s.io/v1";

/** A mutating admission policy. */
export type Mutation = {
  name: string;
  /** `secrets`, `platforms`, … */
  resource: string;
  /** A CEL expression. The policy changes only objects for which it is true. */
  when: string;
  /** JSON pointers to remove. */
  remove: string[];
};

/** Installs a policy that removes parts of all written objects. The returned function removes the policy. */
export async function installMutation(
  { call }: KubernetesCalls,
  { name, resource, when, remove }: Mutation,
): Promise<() => Promise<void>> {
  const apiGroups = [resource === "secrets" ? "" : "deputize.io"];
  const patches = remove.map((path) => `JSONPatch{op: "remove", path: ${JSON.stringify(path)}}`);
  const spec = {
    matchConstraints: {
      resourceRules: [
        { apiGroups, apiVersions: ["*"], operations: ["CREATE", "UPDATE"], resources: [resource] },
      ],
    },
    matchConditions: [{ name: "match", expression: when }],
    failurePolicy: "Fail",
    reinvocationPolicy: "Never",
    mutations: [{ patchType: "JSONPatch", jsonPatch: { expression: `[${patches.join(", ")}]` } }],
  };
  const objects = [
    ["mutatingadmissionpolicies", { spec }],
    ["mutatingadmissionpolicybindings", { spec: { policyName: name } }],
  ] as const;
  for (const [plural, body] of objects) {
    const { status, body: answer } = await call("POST", `${GROUP}/${plural}`, {
      metadata: { name },
      ...body,
    });
    if (status >= 300) throw new Error(`${plural}: ${status} ${String(answer.message)}`);
  }
  return async () => {
    for (const [plural] of objects.toReversed()) await call("DELETE", `${GROUP}/${plural}/${name}`);
  };
}

/** Starts a second controller, which patches an object as soon as `differs` says that somebody changed it. */
export function startRival(
  { call }: KubernetesCalls,
  { path, patch, differs }: { path: string; patch: object; differs(object: never): boolean },
): { writes(): number; stop(): Promise<void> } {
  const stopped = new AbortController();
  let writes = 0;
  async function run(): Promise<void> {
    while (!stopped.signal.aborted) {
      const { status, body } = await call("GET", path);
      if (status === 200 && differs(body as never)) {
        await call("PATCH", path, patch, "application/merge-patch+json");
        writes += 1;
      }
      await sleep(5);
    }
  }
  const running = run();
  return {
    writes: () => writes,
    async stop() {
      stopped.abort();
      await running;
    },
  };
}
