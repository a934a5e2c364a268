import { randomUUID } from "node:crypto";
import { Agent, request } from "undici";
import { systemClock } from "../../../src/clock.ts";
import { type ClusterAccess, openAccess } from "../../../src/kubernetes/access.ts";
import type { GoProgram } from "../go_program.ts";
import { kubernetesBinary } from "./binary.ts";
import { callsOf } from "./calls.ts";
import { definitions } from "./definitions.ts";
import { OPERATOR } from "./policies.ts";
import { type Kubernetes, type KubernetesObject, startKubernetes } from "./server.ts";

const LEASES = "/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.name%3Ddeputize-operator";
const ROLE_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const LIVE_MS = 60_000;

export type TestCluster = {
  /** Others may use a shared cluster too. Tests then delete nothing that belongs to the whole cluster. */
  isShared: boolean;
  missing?: GoProgram["missing"];
  open(): Promise<Kubernetes>;
};

/** Returns the cluster in KUBECONFIG_TEST, or a new cluster if the variable is not set. */
export async function testCluster(): Promise<TestCluster> {
  const { KUBECONFIG_TEST: kubeconfig = "" } = process.env;
  if (kubeconfig !== "") return { isShared: true, open: () => openExisting(kubeconfig) };
  const { path = "", missing } = await kubernetesBinary();
  return { isShared: false, missing, open: () => startKubernetes(path) };
}

/**
 * Opens a running cluster with an administrator's kubeconfig. `stop` deletes what `call` created, including
 * complete namespaces, but not definitions and policies. Throws if an operator leads in the cluster, since it
 * would also process the tests' objects.
 */
export async function openExisting(kubeconfig: string): Promise<Kubernetes> {
  const access = await openAccess({ file: kubeconfig, clock: systemClock });
  const { tls } = await access.credentials();
  if (tls.ca === undefined) throw new Error("KUBECONFIG_TEST names no certificate authority");
  const first = callerOf(access);
  await requireNoOperator(await first("GET", LEASES));
  const name = `deputize-test-${randomUUID().slice(0, 8)}`;
  const created: string[] = [];
  const adminToken = await ownAdministrator(first, name);
  const calls = callsOf({ url: access.server, ca: String(tls.ca), adminToken });
  return {
    url: access.server,
    ca: String(tls.ca),
    adminToken,
    ...calls,
    async call(method, path, body, contentType) {
      const answer = await calls.call(method, path, body, contentType);
      const { metadata } = answer.body as { metadata?: { name?: string } };
      if (method === "POST" && answer.status === 201 && metadata?.name !== undefined) {
        created.push(`${path}/${metadata.name}`);
      }
      return answer;
    },
    audited: () => Promise.reject(new Error("The audit log of a shared cluster is not read")),
    async stop() {
      for (const path of created.reverse()) {
        if (/^\/api\/v1\/namespaces\/[^/]+$/.test(path)) await letGo(calls, path.slice("/api/v1".length));
        await calls.call("DELETE", path);
      }
      await first("DELETE", `${ROLE_BINDINGS}/${name}`);
      await first("DELETE", `/api/v1/namespaces/${name}`);
    },
  };
}

type Call = (method: string, path: string, body?: unknown) => Promise<KubernetesObject>;

/** The returned function throws if a call is refused. */
function callerOf(access: ClusterAccess): Call {
  return async (method, path, body) => {
    const { headers, tls } = await access.credentials();
    const dispatcher = new Agent({ connect: tls });
    try {
      const answer = await request(new URL(path, access.server), {
        method,
        dispatcher,
        headers: { ...headers, "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const decoded = (await answer.body.json()) as KubernetesObject;
      if (answer.statusCode < 300) return decoded;
      throw new Error(`KUBECONFIG_TEST: ${method} ${path}: ${answer.statusCode} ${String(decoded.message)}`);
    } finally {
      await dispatcher.close();
    }
  };
}

async function requireNoOperator(leases: KubernetesObject): Promise<void> {
  type Lease = { metadata: { namespace: string }; spec?: { holderIdentity?: string; renewTime?: string } };
  const live = (leases.items as Lease[]).find(({ spec }) => {
    const renewed = Date.parse(spec?.renewTime ?? "");
    return (spec?.holderIdentity ?? "") !== "" && systemClock.now().getTime() - renewed < LIVE_MS;
  });
  if (live === undefined) return;
  const { namespace } = live.metadata;
  throw new Error(`KUBECONFIG_TEST names a cluster where an operator leads, in namespace ${namespace}`);
}

/** Returns the token of a new service account with all rights. */
async function ownAdministrator(first: Call, name: string): Promise<string> {
  const accounts = `/api/v1/namespaces/${name}/serviceaccounts`;
  await first("POST", "/api/v1/namespaces", { metadata: { name } });
  await first("POST", accounts, { metadata: { name: "tests" } });
  await first("POST", ROLE_BINDINGS, {
    metadata: { name },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
    subjects: [{ kind: "ServiceAccount", name: "tests", namespace: name }],
  });
  const { status } = await first("POST", `${accounts}/tests/token`, { spec: { expirationSeconds: 7200 } });
  return String((status as { token?: string }).token);
}

/** Removes our objects' finalizers, since no operator is running that would do it. */
async function letGo({ call, as }: Pick<Kubernetes, "call" | "as">, namespace: string): Promise<void> {
  const asOperator = as({ ...OPERATOR, group: "system:masters" });
  for (const resource of definitions) {
    const folder = `/apis/deputize.io/v1alpha1${namespace}/${resource}`;
    const { body } = await call("GET", folder);
    for (const { metadata } of (body.items ?? []) as { metadata: { name: string } }[]) {
      const patch = { metadata: { finalizers: null } };
      await asOperator("PATCH", `${folder}/${metadata.name}`, patch, "application/merge-patch+json");
    }
  }
}
