import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Registry } from "prom-client";
import { test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import type { FolderOperatorConfig } from "../../src/config.ts";
import { createLog } from "../../src/log.ts";
import type { Operator } from "../../src/operator/context.ts";
import { openSecretFiles } from "../../src/operator/folder/secrets.ts";
import type { Kind } from "../../src/operator/kinds.ts";
import { startOperator } from "../../src/operator/operator.ts";
import type { Reason } from "../../src/operator/reconcile/ready_reasons.ts";
import { type FakeOperatorApi, startFakeOperatorApi } from "../support/fake_operator_api.ts";
import { operatorMetrics } from "../support/operator_metrics.ts";
import { until } from "../support/process.ts";
import { QUICK, type StateFile, type TestFolders, tenants, testFolders } from "./folder/folders.ts";

export const TOKEN = "operator-token-of-thirty-two-characters";
export const OWNER = "owner@example.test";

const api = "deputize.io/v1alpha1";

export const platform = (spec: object = {}, metadata: object = {}): object => ({
  apiVersion: api,
  kind: "Platform",
  metadata: { name: "shop", ...metadata },
  spec: {
    displayName: "Shop",
    surfaceType: "agentic_api",
    defaultAllowedScopes: ["data:read", "payments:send", "custom:orders:refund"],
    ...spec,
  },
});
export const agent = (spec: object = {}, metadata: object = {}): object => ({
  apiVersion: api,
  kind: "Agent",
  metadata: { name: "bot", ...metadata },
  spec: { platformRef: { name: "shop" }, agentType: "api_agent", ...spec },
});
export const delegation = (spec: object = {}, metadata: object = {}): object => ({
  apiVersion: api,
  kind: "Delegation",
  metadata: { name: "bot", ...metadata },
  spec: {
    platformRef: { name: "shop" },
    agentRef: { name: "bot" },
    scopes: ["data:read", "payments:send"],
    ttl: "24h",
    ...spec,
  },
});

/** An operator over its own folders, with a fake API that has one account. */
export type OperatorFolder = {
  api: FakeOperatorApi;
  /** Returns the metrics of the most recently started operator. */
  metrics(): Promise<string>;
  folders: TestFolders;
  config: FolderOperatorConfig;
  operator(): Operator;
  start(): Promise<void>;
  stop(): Promise<void>;
  /** Declares tenants, platform and agent, and waits until the agent has its key. */
  declareAgent(): Promise<void>;
  /** Like `declareAgent`, and waits until the delegation awaits approval. Returns the id of its request. */
  declareDelegation(spec?: object): Promise<string>;
  state(kind: Kind, name: string): Promise<StateFile>;
  /** Waits until the condition Ready of an object has this reason, and returns the object's state file. */
  reaches(kind: Kind, name: string, reason: Reason, ms?: number): Promise<StateFile>;
  gone(kind: Kind, name: string): Promise<void>;
  /** Returns the credentials in the Secret; `undefined` if the Secret does not exist. */
  credentials(name?: string): Promise<Record<string, string> | undefined>;
  /** Returns the same credentials, but works without a running operator. */
  secretFile(): Promise<Record<string, string> | undefined>;
  dispose(): Promise<void>;
};

/** Sets the id under which the API knows the folder. Must be called before the operator's first start. */
export async function nameCluster({ config }: OperatorFolder, id: string): Promise<void> {
  await mkdir(config.STATUS_DIR, { recursive: true });
  await writeFile(join(config.STATUS_DIR, "cluster.yaml"), `clusterID: ${id}\n`);
}

export function condition(state: StateFile | undefined, type: string) {
  return state?.status?.conditions?.find((each) => each.type === type);
}

/** Prepares an operator over new folders. Call `start` to start the operator. */
export async function operatorFolder(): Promise<OperatorFolder> {
  const fake = await startFakeOperatorApi({ token: TOKEN });
  fake.accounts.set(OWNER, { onboarded: true, platformLimit: 10 });
  const folders = await testFolders();
  const config: FolderOperatorConfig = {
    API_URL: fake.url,
    OPERATOR_API_URL: fake.url,
    CONSOLE_URL: "https://console.example.test/",
    OPERATOR_TOKEN: TOKEN,
    MANIFESTS_DIR: folders.manifests,
    STATUS_DIR: folders.status,
    SECRETS_DIR: folders.secrets,
    LOG_LEVEL: "silent",
    HEALTH_HOST: "127.0.0.1",
    HEALTH_PORT: 0,
  };
  let running: Operator | undefined;
  let registry = new Registry();

  async function reaches(kind: Kind, name: string, reason: Reason, ms?: number): Promise<StateFile> {
    let state: StateFile | undefined;
    await until(
      `${kind} ${name} is ${reason}`,
      async () => {
        state = await folders.state(kind, name);
        return condition(state, "Ready")?.reason === reason;
      },
      ms,
    ).catch((error: unknown) => {
      throw new Error(`${String(error)}; it is ${JSON.stringify(state?.status?.conditions ?? state)}`);
    });
    return state as StateFile;
  }

  async function declareAgent(): Promise<void> {
    await folders.write("tenants.yaml", tenants());
    await folders.write("platform.yaml", platform());
    await folders.write("agent.yaml", agent());
    await reaches("Agent", "bot", "Active");
  }

  return {
    api: fake,
    metrics: () => registry.metrics(),
    folders,
    config,
    operator: () => running as Operator,
    async start() {
      const log = createLog("silent", "test");
      registry = new Registry();
      running = await startOperator({
        config,
        clock: systemClock,
        log,
        metrics: operatorMetrics(registry),
        version: "0",
        fatal: (error) => {
          throw error;
        },
        folderTimes: QUICK,
      });
    },
    async stop() {
      await running?.stop();
      running = undefined;
    },
    declareAgent,
    async declareDelegation(spec = {}) {
      await declareAgent();
      await folders.write("delegation.yaml", delegation(spec));
      const state = await reaches("Delegation", "bot", "AwaitingApproval");
      return String(state.status?.requestID);
    },
    async state(kind, name) {
      const state = await folders.state(kind, name);
      if (state === undefined) throw new Error(`no state of ${kind} ${name}`);
      return state;
    },
    reaches,
    gone: (kind, name) =>
      until(`${kind} ${name} is gone`, async () => (await folders.state(kind, name)) === undefined),
    async credentials(name = "shop-credentials") {
      const secret = await running?.resources.readSecret("default", name);
      return secret?.data;
    },
    secretFile: async () =>
      (await openSecretFiles(folders.secrets).read("default", "shop-credentials"))?.data,
    async dispose() {
      await running?.stop();
      await fake.stop();
      await folders.dispose();
    },
  };
}

/** Gives each test a new operator. The tests mostly wait, so let them run in a `describe.concurrent`. */
export const folderTest = test.extend("world", async ({ onTestFinished }) => {
  const world = await operatorFolder();
  onTestFinished(world.dispose);
  return world;
});

/** Throws `Error` if the map has no value, or several. */
export function only<T>(map: Map<string, T>): T {
  const [value, ...others] = map.values();
  if (value === undefined || others.length > 0) throw new Error(`${map.size} values, not one`);
  return value;
}

export function statePath({ folders }: OperatorFolder, kind: Kind, name: string): string {
  return join(folders.status, "default", `${kind.toLowerCase()}.${name}.yaml`);
}
