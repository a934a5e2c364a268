import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createClusterClient } from "../../src/kubernetes/client.ts";
import { adminAccess } from "../operator/cluster/cluster_harness.ts";
import { startFakeOperatorApi } from "../support/fake_operator_api.ts";
import { kubernetesBinary } from "../support/kubernetes/binary.ts";
import { installDefinitions } from "../support/kubernetes/definitions.ts";
import { kubeconfigText } from "../support/kubernetes/kubeconfig.ts";
import { startKubernetes } from "../support/kubernetes/server.ts";
import { type Crowd, collection, declareCrowd, each, namespaceName } from "./operator/crowd.ts";
import { type BenchOperator, startBenchOperator } from "./operator/process.ts";
import { processorTime } from "./processor_time.ts";
import { addWaits, createRecord } from "./results/record.ts";
import { report } from "./results/tables.ts";

/**
 * Measures an operator with its maximum number of objects, with a real API server and etcd, and a fake of the
 * service's API. It measures the time to process all objects after their creation and after a restart. It
 * also measures writes, idle memory and processor time, and how long people wait. Run `node
 * test/bench/operator.ts [--small]`.
 */
const small = process.argv.includes("--small");
const crowd: Crowd = small
  ? { namespaces: 10, platforms: 20, agents: 200, delegations: 1_000 }
  : { namespaces: 50, platforms: 200, agents: 2_000, delegations: 10_000 };
const total = crowd.platforms + crowd.agents + crowd.delegations;
const IDLE_MS = 60_000;
const SAMPLES = 200;
const BARE_READ = "a bare read of all";
const START = "a start until all are processed";
const TOKEN = "operator-token-of-thirty-two-characters";
const OWNER = "owner@example.test";
const MERGE_PATCH = "application/merge-patch+json";

const binary = await kubernetesBinary();
if (binary.missing !== undefined) {
  console.error(`SKIPPED, missing: ${binary.missing}`);
  process.exit(0);
}
const dir = await mkdtemp(join(tmpdir(), "operator-bench-"));
const kubernetes = await startKubernetes(binary.path);
const api = await startFakeOperatorApi({ token: TOKEN });
const client = await createClusterClient({ access: adminAccess(kubernetes) });
let operator: BenchOperator | undefined;
let used = 0;
const record = createRecord();
try {
  await prepare();
  await measureFirst();
  await measureStart();
  await measureIdle();
  await measureWaits();
  await measureWaitsDuringStart();
  report({
    figures: record.figures(),
    ratios: [{ name: `${START} / ${BARE_READ}`, over: START, under: BARE_READ }],
  });
} finally {
  await operator?.stop();
  await client.close();
  await api.stop();
  await kubernetes.stop();
  await rm(dir, { recursive: true, force: true });
}

async function prepare(): Promise<void> {
  api.intercept((method, call) => {
    if (method === "POST" && call.endsWith("/decision")) decideIn(call);
    return undefined;
  });
  api.accounts.set(OWNER, { onboarded: true, platformLimit: 1_000_000 });
  await installDefinitions(kubernetes);
  const begun = performance.now();
  await declareCrowd(kubernetes, crowd);
  for (const [kind, count] of Object.entries(crowd)) record.add(kind, "objects", count);
  record.add("declared", "objects a second", total / seconds(begun));
  await kubernetes.call("POST", "/api/v1/namespaces", { metadata: { name: "deputize-system" } });
  const names = Array.from({ length: crowd.namespaces }, (_, index) => namespaceName(index));
  await kubernetes.call("POST", "/api/v1/namespaces/deputize-system/configmaps", {
    metadata: { name: "deputize-tenants" },
    data: Object.fromEntries(names.map((name) => [name, `accountEmail: ${OWNER}`])),
  });
  await writeFile(join(dir, "kubeconfig"), kubeconfigText(kubernetes, { token: kubernetes.adminToken }));
}

function start(): Promise<BenchOperator> {
  const settings = {
    API_URL: api.url,
    OPERATOR_API_URL: api.url,
    OPERATOR_TOKEN: TOKEN,
    CONSOLE_URL: "https://console.example.test",
    KUBECONFIG: join(dir, "kubeconfig"),
    OPERATOR_NAMESPACE: "deputize-system",
    LOG_LEVEL: "warn",
  };
  return startBenchOperator(settings, join(dir, "operator.log"));
}

/** Measures from the start until all objects await approval, and from the approvals until all are Active. */
async function measureFirst(): Promise<void> {
  const begun = performance.now();
  operator = await start();
  const reached = (reason: string) => reasonIs(reason, crowd.delegations);
  await reached("AwaitingApproval");
  record.add("created until all await approval", "s", seconds(begun));
  record.add("until all await approval", "writes an object", (await writes()) / total);
  const approved = performance.now();
  for (const delegation of api.delegations.values()) {
    Object.assign(delegation, { status: "approved", approved_scope: ["data:read"], ...certificate() });
  }
  await reached("Active");
  record.add("approved until all are Active", "s", seconds(approved));
  record.add("until all are Active", "writes an object", (await writes()) / total);
}

/** Measures from the operator's start until every object is processed. Also reads the objects directly. */
async function measureStart(): Promise<void> {
  await operator?.stop();
  api.calls.length = 0;
  const read = performance.now();
  for (const kind of ["platforms", "agents", "delegations"] as const) {
    await client.custom.listCustomObjectForAllNamespaces({
      group: "deputize.io",
      version: "v1alpha1",
      resourcePlural: kind,
    });
  }
  record.add(BARE_READ, "s", seconds(read));
  const begun = performance.now();
  operator = await start();
  const current = operator;
  await reach(async () => (await current.metric("controller_runtime_reconcile_total")) >= total);
  await reach(async () => (await current.metric("workqueue_depth")) === 0);
  record.add(START, "s", seconds(begun));
  record.add("a start that finds nothing to change", "writes", await writes());
  record.add("memory after a start", "MiB", await current.memory());
}

async function measureIdle(): Promise<void> {
  if (operator === undefined) return;
  const [before, calls] = [await processorTime(operator.pid), await writes()];
  await sleep(IDLE_MS);
  const used = (await processorTime(operator.pid)) - before;
  record.add("at rest", "mCPU", used / IDLE_MS);
  record.add("a minute of rest", "writes", (await writes()) - calls);
  record.add("memory at rest", "MiB", await operator.memory());
}

/** Measures from a revocation until the API has it, and from a decision until the Delegation is Active. */
async function measureWaits(): Promise<void> {
  const revoked = await sampled(SAMPLES, async (name, namespace) => {
    const id = await externalId(name, namespace);
    await patch(`${collection("delegations", namespace)}/${name}`, { spec: { revoked: true } });
    const begun = performance.now();
    await reach(async () => api.delegations.get(id)?.status === "revoked", 5);
    return performance.now() - begun;
  });
  const decided = await decisions("idle");
  addWaits(record, "revocation until the API has it", revoked);
  addWaits(record, "decision in the cluster until Active", decided);
}

async function measureWaitsDuringStart(): Promise<void> {
  await operator?.stop();
  operator = await start();
  const current = operator;
  await reach(async () => (await current.metric("leader_election_master_status")) === 1);
  addWaits(record, "decision in the cluster until Active, during a start", await decisions("start"));
}

/** Runs `measure` for several unused Delegations, a few of them concurrently. */
async function sampled(
  count: number,
  measure: (name: string, namespace: string) => Promise<number>,
): Promise<number[]> {
  const indexes = Array.from({ length: small ? count / 4 : count }, () => used++);
  const times: number[] = [];
  await each(indexes, async (index) => {
    times.push(await measure(`d-${index}`, namespaceName(index % crowd.namespaces)));
  });
  return times;
}

/** Decides on new Delegations when they await approval. Returns the milliseconds until each is Active. */
async function decisions(when: string): Promise<number[]> {
  const count = small ? SAMPLES / 4 : SAMPLES;
  const names = Array.from({ length: count }, (_, index) => `decide-${when}-${index}`);
  const namespace = namespaceName(0);
  const times: number[] = [];
  await each(names, async (name) => {
    const spec = { platformRef: { name: "p-0" }, agentRef: { name: "a-0" }, scopes: ["data:read"] };
    await kubernetes.call("POST", collection("delegations", namespace), {
      apiVersion: "deputize.io/v1alpha1",
      kind: "Delegation",
      metadata: { name, namespace },
      spec,
    });
    const path = `${collection("delegations", namespace)}/${name}`;
    await reach(async () => (await reasonOf(path)) === "AwaitingApproval", 50);
    const approval = {
      decision: "Approved",
      approvedScopes: ["data:read"],
      approver: { username: "jane" },
      observedGeneration: 1,
    };
    await patch(`${path}/status`, { status: { approval } });
    const begun = performance.now();
    await reach(async () => (await reasonOf(path)) === "Active", 10);
    times.push(performance.now() - begun);
  });
  return times;
}

/** Approves the delegation in the fake API, which has no cluster from which to read the decision. */
function decideIn(call: string): void {
  const id = decodeURIComponent(call.split("/")[4] ?? "");
  const delegation = api.delegations.get(id);
  if (delegation === undefined) return;
  Object.assign(delegation, { status: "approved", approved_scope: ["data:read"], ...certificate() });
}

function certificate() {
  const now = Date.now();
  return {
    cert_id: `cert-${now}-${Math.random()}`,
    issued_at: new Date(now).toISOString(),
    expires_at: new Date(now + 30 * 86_400_000).toISOString(),
    decided_by: OWNER,
  };
}

async function externalId(name: string, namespace: string): Promise<string> {
  const { body } = await kubernetes.call("GET", `${collection("delegations", namespace)}/${name}`);
  const clusterId = [...api.delegations.keys()][0]?.split(".")[0] ?? "";
  return `${clusterId}.${(body.metadata as { uid: string }).uid}`;
}

async function reasonOf(path: string): Promise<string | undefined> {
  const { body } = await kubernetes.call("GET", path);
  const { conditions = [] } = (body.status ?? {}) as { conditions?: { type: string; reason: string }[] };
  return conditions.find(({ type }) => type === "Ready")?.reason;
}

async function patch(path: string, body: object): Promise<void> {
  const { status, body: answer } = await kubernetes.call("PATCH", path, body, MERGE_PATCH);
  if (status !== 200) throw new Error(`${path}: ${status} ${String(answer.message)}`);
}

/** Excludes writes to the operator's lease and its Events. */
async function writes(): Promise<number> {
  if (operator === undefined) return 0;
  const made = await operator.metric("rest_client_requests_total", 'method="PATCH"');
  return made - (await leaseWrites());
}

/** The operator renews its lease every 2 s with a patch. */
async function leaseWrites(): Promise<number> {
  const { body } = await kubernetes.call(
    "GET",
    "/apis/coordination.k8s.io/v1/namespaces/deputize-system/leases/deputize-operator",
  );
  const { acquireTime = "", renewTime = "" } = (body.spec ?? {}) as {
    acquireTime?: string;
    renewTime?: string;
  };
  return Math.round((Date.parse(renewTime) - Date.parse(acquireTime)) / 2_000) || 0;
}

function reasonIs(reason: string, count: number): Promise<void> {
  const current = operator;
  return reach(async () => {
    const found = await current?.metric("deputize_operator_objects", `kind="Delegation",reason="${reason}"`);
    return (found ?? 0) >= count;
  }, 500);
}

async function reach(done: () => Promise<boolean>, everyMs = 200): Promise<void> {
  const end = performance.now() + 15 * 60_000;
  while (!(await done())) {
    if (performance.now() > end) throw new Error("it was not reached within 15 minutes");
    await sleep(everyMs);
  }
}

function seconds(begun: number): number {
  return (performance.now() - begun) / 1000;
}
