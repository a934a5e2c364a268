import { systemClock } from "../../../src/clock.ts";
import type { ClusterAccess } from "../../../src/kubernetes/access.ts";
import { createLog } from "../../../src/log.ts";
import { openCluster } from "../../../src/operator/cluster/open_cluster.ts";
import type { Key } from "../../../src/operator/kinds.ts";
import { BINDINGS_NAME } from "../../../src/operator/namespace_bindings.ts";
import type { KubernetesCalls, KubernetesObject } from "../../support/kubernetes/server.ts";
import type { ResourcesHarness } from "../describe_resources.ts";

export const OPERATOR_NAMESPACE = "deputize-system";

const GROUP = "/apis/deputize.io/v1alpha1/namespaces/default";
const SECRETS = "/api/v1/namespaces/default/secrets";
const CONFIG_MAPS = `/api/v1/namespaces/${OPERATOR_NAMESPACE}/configmaps`;

/** Returns the administrator's access to a cluster, or the access of the impersonated user `as`. */
export function adminAccess({ url, ca, adminToken }: KubernetesCalls, as?: string): ClusterAccess {
  return {
    server: url,
    namespace: undefined,
    credentials: async () => ({
      headers: { authorization: `Bearer ${adminToken}`, ...(as !== undefined && { "impersonate-user": as }) },
      tls: { ca },
    }),
    forget: () => undefined,
  };
}

export function pathOf({ kind, name }: Pick<Key, "kind" | "name">): string {
  return `${GROUP}/${kind.toLowerCase()}s/${name}`;
}

/** Opens an empty cluster, and functions that change it as users would. `access` is the operator's access. */
export async function clusterHarness(
  kubernetes: KubernetesCalls,
  access: ClusterAccess = adminAccess(kubernetes),
  times: { deadlineMs?: number; idleMs?: number; relistMs?: number } = {},
): Promise<ResourcesHarness> {
  await clear(kubernetes);
  const open = () =>
    openCluster({
      access,
      namespace: OPERATOR_NAMESPACE,
      clock: systemClock,
      log: createLog("silent", "test"),
      times: { deadlineMs: 5000, ...times },
    });
  let resources = await open();
  const replace = async (
    folder: string,
    object: KubernetesObject & { metadata: { name: string; annotations?: object } },
  ) => {
    const answer = await kubernetes.call("PUT", `${folder}/${object.metadata.name}`, object);
    if (answer.status === 404) await kubernetes.call("POST", folder, object);
  };
  return {
    resources,
    async apply(manifest) {
      const { kind, metadata } = manifest as { kind: Key["kind"]; metadata: { name: string } };
      const path = `${pathOf({ kind, name: metadata.name })}?fieldManager=person&force=true`;
      await kubernetes.call("PATCH", path, manifest, "application/apply-patch+yaml");
    },
    remove: async (key) => void (await kubernetes.call("DELETE", pathOf(key))),
    bind: (data) =>
      replace(CONFIG_MAPS, { apiVersion: "v1", kind: "ConfigMap", metadata: { name: BINDINGS_NAME }, data }),
    putSecret: ({ name, type, annotations, data }) =>
      replace(SECRETS, {
        apiVersion: "v1",
        kind: "Secret",
        metadata: { name, annotations },
        type,
        stringData: data,
      }),
    async reopen() {
      await resources.stop();
      resources = await open();
      return resources;
    },
    close: () => resources.stop(),
  };
}

async function clear(kubernetes: KubernetesCalls): Promise<void> {
  for (const kind of ["Delegation", "Agent", "Platform"] as const) {
    const { body } = await kubernetes.call("GET", `${GROUP}/${kind.toLowerCase()}s`);
    for (const { metadata } of body.items as { metadata: { name: string } }[]) {
      const path = pathOf({ kind, name: metadata.name });
      const patch = { metadata: { finalizers: null } };
      await kubernetes.call("PATCH", path, patch, "application/merge-patch+json");
      await kubernetes.call("DELETE", path);
    }
  }
  await kubernetes.call("DELETE", SECRETS);
  await kubernetes.call("POST", "/api/v1/namespaces", { metadata: { name: OPERATOR_NAMESPACE } });
  await kubernetes.call("DELETE", `${CONFIG_MAPS}/${BINDINGS_NAME}`);
}
