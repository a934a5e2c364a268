import { randomUUID } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Registry } from "prom-client";
import { systemClock } from "../../../src/clock.ts";
import type { ClusterOperatorConfig } from "../../../src/config.ts";
import { createLog } from "../../../src/log.ts";
import type { SweepTimes } from "../../../src/operator/cluster/run_in_cluster.ts";
import type { Operator } from "../../../src/operator/context.ts";
import type { AnyObject, Kind } from "../../../src/operator/kinds.ts";
import { BINDINGS_NAME } from "../../../src/operator/namespace_bindings.ts";
import { startOperator } from "../../../src/operator/operator.ts";
import { type FakeOperatorApi, startFakeOperatorApi } from "../../support/fake_operator_api.ts";
import { kubeconfigText } from "../../support/kubernetes/kubeconfig.ts";
import type { KubernetesAnswer, KubernetesCalls } from "../../support/kubernetes/server.ts";
import { operatorMetrics } from "../../support/operator_metrics.ts";
import { killHard, type RunningScript, runScript, until } from "../../support/process.ts";
import { OWNER, TOKEN } from "../operator_folder.ts";

const PROGRAM = join(import.meta.dirname, "../operator_process.ts");
const LEASE = "/apis/coordination.k8s.io/v1/namespaces/NAMESPACE/leases/deputize-operator";

/** Operators in a real cluster, each in its own namespace, against a fake API with one account. */
export type OperatorCluster = {
  api: FakeOperatorApi;
  /** Returns the metrics of the most recently started operator. */
  metrics(): Promise<string>;
  config: ClusterOperatorConfig;
  /** Namespace of the objects. The operator has its own namespace. */
  namespace: string;
  systemNamespace: string;
  /** Starts an operator in this process. */
  start(): Promise<Operator>;
  operators(): Operator[];
  /** Returns the errors after which an operator's process would have ended. */
  fatal(): Error[];
  /** Starts an operator in a separate process. */
  spawn(): Promise<RunningScript>;
  apply(...manifests: object[]): Promise<void>;
  remove(kind: Kind, name: string): Promise<void>;
  find(kind: Kind, name: string): Promise<AnyObject | undefined>;
  /** Waits until the condition Ready of an object has this reason, and returns the object. */
  reaches(kind: Kind, name: string, reason: string, ms?: number): Promise<AnyObject>;
  gone(kind: Kind, name: string): Promise<void>;
  /** Returns the data of a Secret; `undefined` if it does not exist. */
  secret(name: string): Promise<Record<string, string> | undefined>;
  removeSecret(name: string): Promise<void>;
  /** Returns the holder of the Lease: empty if nobody holds the Lease, `undefined` if it does not exist. */
  holder(): Promise<string | undefined>;
  lease(method: string, body?: object): Promise<KubernetesAnswer>;
  /** Returns the reasons of all Events in a namespace. */
  events(namespace: string): Promise<string[]>;
  /** Stops every operator and the fake API. The objects in the cluster remain. */
  dispose(): Promise<void>;
};

/**
 * Creates the namespaces, a binding and the fake API. The operators call the cluster at `url` as the
 * administrator or as the user `as`. `settings` may name an API other than the fake one.
 */
export async function operatorCluster(
  kubernetes: KubernetesCalls,
  {
    id = randomUUID().slice(0, 8),
    url = kubernetes.url,
    ca = kubernetes.ca,
    as,
    accountEmail = OWNER,
    settings = {},
    sweepTimes,
  }: {
    id?: string;
    url?: string;
    ca?: string;
    as?: string;
    accountEmail?: string;
    settings?: Partial<ClusterOperatorConfig>;
    sweepTimes?: SweepTimes;
  } = {},
): Promise<OperatorCluster> {
  const [namespace, systemNamespace] = [`shop-${id}`, `system-${id}`];
  const folder = await mkdtemp(join(tmpdir(), "deputize-kubeconfig-"));
  const kubeconfig = join(folder, "config");
  await writeFile(kubeconfig, kubeconfigText({ url, ca }, { token: kubernetes.adminToken, as }));
  const api = await startFakeOperatorApi({ token: TOKEN });
  api.accounts.set(OWNER, { onboarded: true, platformLimit: 10 });
  for (const name of [namespace, systemNamespace]) {
    await kubernetes.call("POST", "/api/v1/namespaces", { metadata: { name } });
  }
  await kubernetes.call("POST", `/api/v1/namespaces/${systemNamespace}/configmaps`, {
    metadata: { name: BINDINGS_NAME },
    data: { [namespace]: `accountEmail: ${accountEmail}` },
  });
  const config: ClusterOperatorConfig = {
    API_URL: api.url,
    OPERATOR_API_URL: api.url,
    CONSOLE_URL: "https://console.example.test/",
    OPERATOR_TOKEN: TOKEN,
    KUBECONFIG: kubeconfig,
    OPERATOR_NAMESPACE: systemNamespace,
    LOG_LEVEL: "silent",
    HEALTH_HOST: "127.0.0.1",
    HEALTH_PORT: 0,
    ...settings,
  };
  const operators: Operator[] = [];
  const fatal: Error[] = [];
  let registry = new Registry();
  const scripts: RunningScript[] = [];
  const pathOf = (kind: Kind, name: string) =>
    `/apis/deputize.io/v1alpha1/namespaces/${namespace}/${kind.toLowerCase()}s/${name}`;

  const secretPath = (name: string) => `/api/v1/namespaces/${namespace}/secrets/${name}`;

  async function find(kind: Kind, name: string): Promise<AnyObject | undefined> {
    const { status, body } = await kubernetes.call("GET", pathOf(kind, name));
    return status === 200 ? (body as unknown as AnyObject) : undefined;
  }

  const lease: OperatorCluster["lease"] = (method, body) =>
    kubernetes.call(
      method,
      LEASE.replace("NAMESPACE", systemNamespace),
      body,
      "application/merge-patch+json",
    );

  return {
    api,
    metrics: () => registry.metrics(),
    config,
    namespace,
    systemNamespace,
    async start() {
      const log = createLog("silent", "test");
      registry = new Registry();
      const operator = await startOperator({
        config,
        clock: systemClock,
        log,
        metrics: operatorMetrics(registry),
        version: "0",
        fatal: (error) => void fatal.push(error),
        ...(sweepTimes && { sweepTimes }),
      });
      operators.push(operator);
      return operator;
    },
    operators: () => operators,
    fatal: () => fatal,
    async spawn() {
      const script = await runScript(PROGRAM, [JSON.stringify(config)]);
      scripts.push(script);
      return script;
    },
    async apply(...manifests) {
      for (const manifest of manifests) {
        const { kind, metadata } = manifest as { kind: Kind; metadata: { name: string } };
        const path = `${pathOf(kind, metadata.name)}?fieldManager=person&force=true`;
        const answer = await kubernetes.call("PATCH", path, manifest, "application/apply-patch+yaml");
        if (answer.status >= 300) throw new Error(`${answer.status} ${String(answer.body.message)}`);
      }
    },
    remove: async (kind, name) => void (await kubernetes.call("DELETE", pathOf(kind, name))),
    find,
    async reaches(kind, name, reason, ms) {
      let object: AnyObject | undefined;
      const ready = () => object?.status?.conditions?.find(({ type }) => type === "Ready");
      await until(
        `${kind} ${name} is ${reason}`,
        async () => {
          object = await find(kind, name);
          return ready()?.reason === reason;
        },
        ms,
      ).catch((error: unknown) => {
        throw new Error(`${String(error)}; it is ${JSON.stringify(object?.status ?? object)}`);
      });
      return object as AnyObject;
    },
    gone: (kind, name) =>
      until(`${kind} ${name} is gone`, async () => (await find(kind, name)) === undefined),
    async secret(name) {
      const { status, body } = await kubernetes.call("GET", secretPath(name));
      if (status !== 200) return undefined;
      const data = Object.entries((body.data ?? {}) as Record<string, string>);
      return Object.fromEntries(data.map(([key, value]) => [key, Buffer.from(value, "base64").toString()]));
    },
    removeSecret: async (name) => void (await kubernetes.call("DELETE", secretPath(name))),
    lease,
    async holder() {
      const { status, body } = await lease("GET");
      return status === 200 ? ((body.spec as { holderIdentity?: string }).holderIdentity ?? "") : undefined;
    },
    async events(of) {
      const { body } = await kubernetes.call("GET", `/api/v1/namespaces/${of}/events`);
      return (body.items as { reason: string }[]).map(({ reason }) => reason);
    },
    async dispose() {
      await Promise.all(operators.map((operator) => operator.stop()));
      await Promise.all(scripts.map(({ child }) => killHard(child)));
      await api.stop();
      await rm(folder, { recursive: true });
    },
  };
}
