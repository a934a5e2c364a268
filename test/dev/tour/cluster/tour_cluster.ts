import { type ChildProcess, spawn } from "node:child_process";
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { freePort } from "../../../../src/dev/process/ports.ts";
import { type DevStack, environmentOf, PROGRAM, startDevStack } from "../../../support/dev_stack.ts";
import { type Controllers, startControllers } from "../../../support/kubernetes/controllers.ts";
import { installDefinitions } from "../../../support/kubernetes/definitions.ts";
import { kubeconfigText } from "../../../support/kubernetes/kubeconfig.ts";
import { installPolicies, OPERATOR } from "../../../support/kubernetes/policies.ts";
import { type Kubernetes, startKubernetes } from "../../../support/kubernetes/server.ts";
import { killHard, until } from "../../../support/process.ts";
import { releaseParts } from "./release_parts.ts";

const SYSTEM = "/api/v1/namespaces/deputize-system";
const CLUSTER = "tour";
const STARTED_MS = 60_000;

/** A cluster without nodes. Each role is a process outside the cluster with its pod's environment. */
export type TourCluster = {
  kubernetes: Kubernetes;
  apiUrl: string;
  operator: ChildProcess;
  /** Runs the tour with a replacement for its access to pods. */
  run(options: object): RunningTour;
  stop(): Promise<void>;
};

/** A running tour. `said` is its output so far. */
export type RunningTour = {
  child: ChildProcess;
  said: { out: string; err: string };
  exit: Promise<number | null>;
};

/** Starts the cluster and the service. `binary` contains API server, controllers and kubectl. */
export async function startTourCluster(binary: string): Promise<TourCluster> {
  const folder = await mkdtemp(join(tmpdir(), "deputize-tour-"));
  const endings: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })];
  const stop = async () => {
    for (const end of endings.reverse()) await end();
  };
  try {
    const kubernetes = await startKubernetes(binary);
    endings.push(() => kubernetes.stop());
    const controllers: Controllers = await startControllers(binary, kubernetes);
    endings.push(() => controllers.stop());
    await prepare(kubernetes);
    const stack = await startDevStack();
    endings.push(() => stack.stop());
    const configs = await writeConfigs(folder, kubernetes);
    const api = await startApi(stack, { CLUSTERS_FILE: configs.clusters });
    endings.push(() => killHard(api.child));
    const operator = await startOperator(kubernetes, api, configs.operator);
    endings.push(() => killHard(operator));
    const path = await kubectlPath(folder, binary);
    return {
      kubernetes,
      apiUrl: api.url,
      operator,
      run: (options) => runTour({ kubeconfig: configs.admin, ...options }, api.url, path),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function prepare(kubernetes: Kubernetes): Promise<void> {
  await installDefinitions(kubernetes);
  await installPolicies(kubernetes);
  await kubernetes.call("POST", "/api/v1/namespaces", { metadata: { name: "deputize-system" } });
  await kubernetes.call("POST", `${SYSTEM}/serviceaccounts`, { metadata: { name: "deputize-operator" } });
  await kubernetes.call("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
    metadata: { name: "deputize-test-operator" },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
    subjects: [{ kind: "User", apiGroup: "rbac.authorization.k8s.io", name: OPERATOR.name }],
  });
  const settings = { api: { DEVELOPMENT: "true" }, operator: { CLUSTER_ID: CLUSTER } };
  for (const part of releaseParts(settings)) {
    const isService = part.kind === "Service";
    const kind = `${part.kind.toLowerCase()}s`;
    const collection = isService ? `${SYSTEM}/${kind}` : `/apis/apps/v1/namespaces/deputize-system/${kind}`;
    await must(kubernetes.call("POST", collection, part));
    if (isService) continue;
    const patch = { status: part.status };
    const path = `${collection}/${part.metadata.name}/status`;
    await must(kubernetes.call("PATCH", path, patch, "application/merge-patch+json"));
  }
}

async function must(answer: ReturnType<Kubernetes["call"]>): Promise<void> {
  const { status, body } = await answer;
  if (status >= 300) throw new Error(`${status} ${String(body.message)}`);
}

async function writeConfigs(folder: string, kubernetes: Kubernetes) {
  const token = kubernetes.adminToken;
  const paths = {
    admin: join(folder, "admin.yaml"),
    operator: join(folder, "operator.yaml"),
    clusters: join(folder, "clusters.yaml"),
  };
  await writeFile(paths.admin, kubeconfigText(kubernetes, { token }));
  await writeFile(paths.operator, kubeconfigText(kubernetes, { token, as: OPERATOR.name }));
  await writeFile(paths.clusters, JSON.stringify({ clusters: [{ id: CLUSTER, kubeconfig: "admin.yaml" }] }));
  return paths;
}

/** Starts a second API on the stack's database and vault, which trusts the cluster's operator. */
async function startApi(stack: DevStack, more: Record<string, string>) {
  const [port, operatorPort] = [await freePort(), await freePort()];
  const url = `http://127.0.0.1:${port}`;
  const { OPERATOR_TOKEN_FILE: _, ...environment } = await environmentOf(stack, "api");
  const env = {
    ...environment,
    ...more,
    PORT: String(port),
    BASE_URL: url,
    HEALTH_PORT: "0",
    OPERATOR_PORT: String(operatorPort),
  };
  const child = spawn(process.execPath, [PROGRAM, "api"], { env, stdio: ["ignore", "ignore", "inherit"] });
  const answers = () =>
    fetch(`${url}/v1/service/scopes`).then(
      ({ ok }) => ok,
      () => false,
    );
  await until("the API answers", answers, STARTED_MS);
  return { child, url, operatorUrl: `http://127.0.0.1:${operatorPort}` };
}

async function startOperator(
  kubernetes: Kubernetes,
  api: { url: string; operatorUrl: string },
  kubeconfig: string,
): Promise<ChildProcess> {
  const path = `${SYSTEM}/serviceaccounts/deputize-operator/token`;
  const spec = { audiences: ["deputize-api"], expirationSeconds: 3600 };
  const { body } = await kubernetes.call("POST", path, { spec });
  const healthPort = await freePort();
  const env = {
    PATH: process.env.PATH,
    API_URL: api.url,
    CONSOLE_URL: api.url,
    OPERATOR_API_URL: api.operatorUrl,
    OPERATOR_TOKEN: (body.status as { token: string }).token,
    KUBECONFIG: kubeconfig,
    OPERATOR_NAMESPACE: "deputize-system",
    CLUSTER_ID: CLUSTER,
    HEALTH_PORT: String(healthPort),
  };
  const child = spawn(process.execPath, [PROGRAM, "operator"], {
    env,
    stdio: ["ignore", "ignore", "inherit"],
  });
  const isReady = () =>
    fetch(`http://127.0.0.1:${healthPort}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    );
  await until("the operator is ready", isReady, STARTED_MS);
  return child;
}

async function kubectlPath(folder: string, binary: string): Promise<string> {
  const bin = join(folder, "bin");
  await mkdir(bin);
  await writeFile(join(bin, "kubectl"), `#!/bin/sh\nexec ${binary} kubectl "$@"\n`);
  await chmod(join(bin, "kubectl"), 0o755);
  return [bin, process.env.PATH ?? ""].join(delimiter);
}

function runTour(options: object, apiUrl: string, path: string): RunningTour {
  const script = join(import.meta.dirname, "run_tour_here.ts");
  const child = spawn(process.execPath, [script, JSON.stringify(options), apiUrl], {
    env: { ...process.env, PATH: path },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const said = { out: "", err: "" };
  child.stdout.on("data", (chunk: Buffer) => {
    said.out += chunk;
  });
  child.stderr.on("data", (chunk: Buffer) => {
    said.err += chunk;
  });
  const exit = new Promise<number | null>((resolve) => child.once("close", resolve));
  return { child, said, exit };
}
