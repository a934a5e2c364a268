import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { installDefinitions } from "../../support/kubernetes/definitions.ts";
import { type Kubernetes, startKubernetes } from "../../support/kubernetes/server.ts";
import { until } from "../../support/process.ts";
import { agent, delegation, only, platform } from "../operator_folder.ts";
import { type OperatorCluster, operatorCluster } from "./operator_cluster.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const MERGE_PATCH = "application/merge-patch+json";
const binary = await kubernetesBinary();
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

type Record = { state: string; why?: string; epoch: number; items: { name: string }[] };

describe.skipIf(binary.missing !== undefined)("delegations that lose their object in a cluster", () => {
  let kubernetes: Kubernetes;
  let world: OperatorCluster;

  beforeAll(async () => {
    kubernetes = await startKubernetes(binary.path ?? "");
    await installDefinitions(kubernetes);
  }, BUILD_TIMEOUT_MS);
  afterAll(() => kubernetes?.stop());
  afterEach(async () => {
    await world.dispose();
    await stripAll();
  });
  beforeEach(async () => {
    world = await operatorCluster(kubernetes, {
      settings: { ORPHAN_GRACE: "1s" },
      sweepTimes: { firstMs: 200, everyMs: 300 },
    });
  });

  const configMap = () => `/api/v1/namespaces/${world.systemNamespace}/configmaps/deputize-orphans`;
  async function record(): Promise<Record | undefined> {
    const { status, body } = await kubernetes.call("GET", configMap());
    if (status !== 200) return undefined;
    return JSON.parse((body.data as { [name: string]: string })["orphans.json"] ?? "") as Record;
  }
  const held = () => until("it is held", async () => (await record())?.state === "held");
  async function declareActive(): Promise<void> {
    await world.apply(platform(), agent(), delegation());
    await world.reaches("Delegation", "bot", "AwaitingApproval");
    world.api.approve(only(world.api.delegations).request_id, ["data:read"]);
    await world.reaches("Delegation", "bot", "Active");
  }
  /** Removes an object without the operator, as a user who may remove finalizers could. */
  async function strip(kind: "Delegation" | "Agent" | "Platform", name: string): Promise<void> {
    const of = `/apis/deputize.io/v1alpha1/namespaces/${world.namespace}/${kind.toLowerCase()}s/${name}`;
    await kubernetes.call("PATCH", of, { metadata: { finalizers: null } }, MERGE_PATCH);
    await world.remove(kind, name);
    await world.gone(kind, name);
  }
  const stripAll = async () => {
    await strip("Delegation", "bot");
    await strip("Agent", "bot");
    await strip("Platform", "shop");
  };

  test("appear in the list of orphans, and end after the grace period", async () => {
    await world.start();
    await declareActive();
    await until("a sweep was recorded", async () => (await record())?.state === "ok");
    await world.operators()[0]?.stop();
    await strip("Delegation", "bot");
    await world.start();
    await until("it is listed", async () => (await record())?.items[0]?.name === "bot");
    expect(only(world.api.delegations).status).toBe("approved");
    await until("it is revoked", () => only(world.api.delegations).status === "revoked");
    await until("the list is empty", async () => (await record())?.items.length === 0);
  });

  test("end if all objects are recreated with new uids, and leave no duplicates", async () => {
    await world.start();
    await declareActive();
    await until("a sweep was recorded", async () => (await record())?.state === "ok");
    await world.operators()[0]?.stop();
    const secret = await world.secret("shop-credentials");
    await stripAll();
    await world.apply(platform(), agent(), delegation());
    await world.start();
    await world.reaches("Delegation", "bot", "AwaitingApproval");
    await until("the delegation of the former object has ended", () => {
      const states = [...world.api.delegations.values()].map(({ status }) => status);
      return states.sort().join() === "pending,revoked";
    });
    expect(only(world.api.platforms).retired).toEqual([]);
    expect(only(world.api.agents).disabled).toBe(false);
    expect(await world.secret("shop-credentials")).toEqual(secret);
  });

  test("remain in force in an emptied cluster until an administrator confirms their revocation", async () => {
    await world.start();
    await declareActive();
    await until("a sweep was recorded", async () => (await record())?.state === "ok");
    await world.operators()[0]?.stop();
    await stripAll();
    await world.start();
    await held();
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    expect(only(world.api.delegations).status).toBe("approved");
    const { epoch, why } = (await record()) as Record;
    expect(why).toContain(`deputize.io/confirmed: "${epoch}"`);
    const annotations = { "deputize.io/confirmed": String(epoch) };
    await kubernetes.call("PATCH", configMap(), { metadata: { annotations } }, MERGE_PATCH);
    await until("it is revoked", () => only(world.api.delegations).status === "revoked");
    const { metadata } = (await kubernetes.call("GET", configMap())).body;
    expect(metadata).not.toHaveProperty("annotations");
  });

  test("remain in force in a restored cluster, whose last recorded leader is older than the last leader known to the service", async () => {
    await world.start();
    await declareActive();
    await until("a sweep was recorded", async () => (await record())?.state === "ok");
    await world.operators()[0]?.stop();
    const { body } = await kubernetes.call("GET", configMap());
    const backup = { data: body.data };
    await world.start();
    await until("the next leader has recorded", async () => (await record())?.epoch === 2);
    await world.operators()[1]?.stop();
    await strip("Delegation", "bot");
    await kubernetes.call("PATCH", configMap(), backup, MERGE_PATCH);
    await world.start();
    await held();
    expect((await record())?.why).toContain("restored");
    expect(only(world.api.delegations).status).toBe("approved");
  });
});
