import { test as base, describe, expect } from "vitest";
import { IDENTITY_NAME } from "../../../src/operator/cluster/cluster_identity.ts";
import { type FakeKubernetes, startFakeKubernetes } from "../../support/kubernetes/fake_server.ts";
import { until } from "../../support/process.ts";
import { agent, delegation, only, platform } from "../operator_folder.ts";
import { type OperatorCluster, operatorCluster } from "./operator_cluster.ts";

const test = base.extend<{ kubernetes: FakeKubernetes; world: OperatorCluster }>({
  // biome-ignore lint/correctness/noEmptyPattern: Vitest requires a pattern here.
  kubernetes: async ({}, use) => {
    const kubernetes = await startFakeKubernetes();
    await use(kubernetes);
    await kubernetes.stop();
  },
  world: async ({ kubernetes }, use) => {
    const world = await operatorCluster(kubernetes, { settings: { CLUSTER_ID: "prod-eu" } });
    await use(world);
    await world.dispose();
  },
});

const mapsOf = ({ systemNamespace }: OperatorCluster) => `/api/v1/namespaces/${systemNamespace}/configmaps`;
const mapOf = (world: OperatorCluster) => `${mapsOf(world)}/${IDENTITY_NAME}`;

/** Starts an operator that must refuse to run, and returns the message with which its process ends. */
async function refusal(world: OperatorCluster): Promise<string> {
  const before = world.fatal().length;
  const operator = await world.start();
  await until("the operator refuses to run", () => world.fatal().length > before);
  expect([await operator.isReady(), operator.isLeading()]).toEqual([false, false]);
  return world.fatal().at(-1)?.message ?? "";
}

async function grant(world: OperatorCluster): Promise<void> {
  await world.apply(platform(), agent(), delegation());
  await world.reaches("Delegation", "bot", "AwaitingApproval");
  world.api.approve(only(world.api.delegations).request_id, ["data:read"]);
  await world.reaches("Delegation", "bot", "Active");
}

describe.concurrent("the id under which the service knows a cluster", () => {
  test("appears in a record in the cluster before the first registration", async ({ kubernetes, world }) => {
    const recorded: unknown[] = [];
    kubernetes.setRule((method, path) => {
      if (method === "POST" && path.endsWith("/configmaps")) {
        recorded.push(world.api.calls.map((call) => call.path));
      }
      return undefined;
    });
    await world.start();
    await world.apply(platform());
    await world.reaches("Platform", "shop", "Active");
    const { body } = await kubernetes.call("GET", mapOf(world));
    expect(body.data).toEqual({ clusterID: "prod-eu" });
    expect(recorded).toEqual([["/internal/v1/leadership"]]);
  });

  test("enters the record only after the API accepts it, so a misspelled id can be corrected", async ({
    kubernetes,
    world,
  }) => {
    world.config.CLUSTER_ID = "prdo-eu";
    world.api.fail("POST /internal/v1/leadership", "operator_unauthorized");
    const misspelled = await world.start();
    await world.apply(platform());
    await world.reaches("Platform", "shop", "AuthorizationFailed");
    expect((await kubernetes.call("GET", mapOf(world))).status).toBe(404);
    await misspelled.stop();
    world.api.heal();
    world.config.CLUSTER_ID = "prod-eu";
    await world.start();
    await world.reaches("Platform", "shop", "Active");
    expect((await kubernetes.call("GET", mapOf(world))).body.data).toEqual({ clusterID: "prod-eu" });
    expect(world.fatal()).toEqual([]);
  });

  test("stops an operator if another one has recorded another id meanwhile", async ({
    kubernetes,
    world,
  }) => {
    const release = world.api.hold("POST /internal/v1/leadership");
    await world.start();
    await world.apply(platform());
    await until("it asks the API", () => world.api.callsTo("POST", "/leadership").length > 0);
    await kubernetes.call("POST", mapsOf(world), {
      metadata: { name: IDENTITY_NAME },
      data: { clusterID: "prod-us" },
    });
    release();
    await until("the operator refuses to run", () => world.fatal().length > 0);
    expect(world.fatal().at(0)?.message).toContain("records prod-us");
    expect(world.api.platforms.size).toBe(0);
  });

  test("cannot change: an operator with another id writes nothing and names both ids", async ({
    kubernetes,
    world,
  }) => {
    const former = await world.start();
    await grant(world);
    await former.stop();
    const calls = world.api.calls.length;
    kubernetes.requests.splice(0);
    world.config.CLUSTER_ID = "prod-us";
    const message = await refusal(world);
    expect(message).toContain("The cluster id is prod-us");
    expect(message).toContain(`${world.systemNamespace}/${IDENTITY_NAME} records prod-eu`);
    expect(kubernetes.requests.filter(({ method }) => method !== "GET")).toEqual([]);
    expect(world.api.calls.length).toBe(calls);
    delete world.config.CLUSTER_ID;
    expect(await refusal(world)).toContain("records prod-eu");
    world.config.CLUSTER_ID = "prod-eu";
    await world.start();
    await world.remove("Delegation", "bot");
    await world.gone("Delegation", "bot");
    expect(only(world.api.delegations).status).toBe("revoked");
  });

  test("protects certificates even if somebody deletes the record", async ({ kubernetes, world }) => {
    const former = await world.start();
    await grant(world);
    await former.stop();
    await kubernetes.call("DELETE", mapOf(world));
    world.config.CLUSTER_ID = "prod-us";
    const other = await world.start();
    await world.reaches("Delegation", "bot", "ExternalMissing");
    await world.remove("Delegation", "bot");
    await until("the API was asked", () => world.api.callsTo("POST", "/revoke").length > 0);
    await until("the message is about the deletion", async () => {
      const { status } = await world.reaches("Delegation", "bot", "ExternalMissing");
      return status.conditions?.some(({ message }) => message.includes("nothing was revoked")) === true;
    });
    const granted = [...world.api.delegations.values()];
    expect(granted.map(({ status }) => status)).toEqual(["approved"]);
    await other.stop();
    await kubernetes.call("DELETE", mapOf(world));
    world.config.CLUSTER_ID = "prod-eu";
    await world.start();
    await world.gone("Delegation", "bot");
    expect(only(world.api.delegations).status).toBe("revoked");
  });

  test("stays the same for operators that start at the same moment", async ({ world }) => {
    const [one, two] = await Promise.all([world.start(), world.start()]);
    await until("both are ready", async () => (await one.isReady()) && (await two.isReady()));
    expect([one.clusterId(), two.clusterId(), world.fatal()]).toEqual(["prod-eu", "prod-eu", []]);
  });

  test("must be in the record before the operator registers anything", async ({ kubernetes, world }) => {
    let refusals = 0;
    let isRefused = true;
    kubernetes.setRule((method, path) => {
      if (!isRefused || method !== "POST" || !path.endsWith("/configmaps")) return undefined;
      refusals += 1;
      return { status: 403 };
    });
    await world.start();
    await world.apply(platform());
    const { status } = await world.reaches("Platform", "shop", "ClusterRefused");
    expect(status.conditions?.find(({ type }) => type === "Ready")?.message).toContain(IDENTITY_NAME);
    await until("it has asked twice", () => refusals > 1);
    expect(world.api.platforms.size).toBe(0);
    isRefused = false;
    await world.reaches("Platform", "shop", "Active");
    expect(world.fatal()).toEqual([]);
  });

  test("must be in the record: an empty record stops the operator", async ({ kubernetes, world }) => {
    await kubernetes.call("POST", mapsOf(world), { metadata: { name: IDENTITY_NAME } });
    expect(await refusal(world)).toContain("records none");
  });
});
