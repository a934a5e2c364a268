import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { OPERATOR_TOKEN, type Person, startApi, type TestApi } from "../../support/api.ts";
import { isOldest, kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { installDefinitions } from "../../support/kubernetes/definitions.ts";
import { type Kubernetes, startKubernetes } from "../../support/kubernetes/server.ts";
import { until } from "../../support/process.ts";
import { installMutation, type Mutation, startRival } from "../../support/surroundings/undoing_cluster.ts";
import { platform } from "../operator_folder.ts";
import { type OperatorCluster, operatorCluster } from "./operator_cluster.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const MERGE_PATCH = "application/merge-patch+json";
/** Without limits, the operator rotates about 20 keys a second. */
const WATCHED_MS = Number(process.env.UNDONE_WATCHED_MS ?? 4_000);
const binary = await kubernetesBinary();
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

if (isOldest) console.error("SKIPPED, missing: MutatingAdmissionPolicy in Kubernetes 1.30");
const testOfPolicies = test.skipIf(isOldest);

const OURS = "object.type == 'deputize.io/platform-credentials'";
const NOTED = `${OURS} && has(object.metadata.annotations)`;
const pointer = (name: string) => `/metadata/annotations/deputize.io~1${name}`;
const strips = (name: string): Mutation => ({
  name: `strips-${name}`,
  resource: "secrets",
  when: `${NOTED} && 'deputize.io/${name}' in object.metadata.annotations`,
  remove: [pointer(name)],
});

describe.skipIf(binary.missing !== undefined)("an operator whose writes somebody undoes", () => {
  let kubernetes: Kubernetes;
  let api: TestApi;
  let world: OperatorCluster;
  let person: Person;

  beforeAll(async () => {
    kubernetes = await startKubernetes(binary.path ?? "");
    await installDefinitions(kubernetes);
    api = await startApi();
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await api?.stop();
    await kubernetes?.stop();
  });
  beforeEach(async () => {
    person = await api.person();
    world = await operatorCluster(kubernetes, { accountEmail: person.email });
    Object.assign(world.config, {
      API_URL: api.url,
      OPERATOR_API_URL: api.operatorUrl,
      OPERATOR_TOKEN,
      CLUSTER_ID: "c1",
      WATCH_NAMESPACES: [world.namespace],
    });
    await person.client.call("PUT", `/v1/service/namespace-bindings/c1/${world.namespace}`, { body: {} });
    await world.start();
  });
  afterEach(() => world.dispose());

  async function installed(mutation: Mutation): Promise<() => Promise<void>> {
    const remove = await installMutation(kubernetes, mutation);
    onTestFinished(remove);
    // A policy takes effect within about a second.
    await sleep(2_000);
    return remove;
  }
  const pathOf = (group: string, resource: string, name: string) =>
    `${group}/namespaces/${world.namespace}/${resource}/${name}`;
  const platformPath = () => pathOf("/apis/deputize.io/v1alpha1", "platforms", "shop");
  const secretPath = () => pathOf("/api/v1", "secrets", "shop-credentials");
  const annotate = (text: string) =>
    kubernetes.call(
      "PATCH",
      platformPath(),
      { metadata: { annotations: { "deputize.io/rotate-key": text } } },
      MERGE_PATCH,
    );
  async function rotations(): Promise<number> {
    const rows = await api.db("platforms as p").join("connections as c", "c.platform_id", "p.platform_id");
    const own = rows.find(({ account_id }) => account_id === person.accountId);
    const events = own === undefined ? [] : await api.events(own.connection_id);
    return events.filter(({ event }) => event === "connection.key_rotated").length;
  }
  /** Returns the number of writes of Platforms in the namespace. */
  async function writes(): Promise<number> {
    const entries = (await kubernetes.audited()) as { objectRef: { namespace: string; resource: string } }[];
    const inNamespace = entries.filter(({ objectRef }) => objectRef.namespace === world.namespace);
    return inNamespace.filter(({ objectRef }) => objectRef.resource === "platforms").length;
  }

  testOfPolicies(
    "rotates a key once for a request, although a policy strips the request from the Secret",
    async () => {
      await world.apply(platform());
      await world.reaches("Platform", "shop", "Active");
      await installed(strips("rotate-key"));
      await annotate("now");
      await until("the key is rotated", async () => (await rotations()) > 0);
      await sleep(WATCHED_MS);
      expect(await rotations()).toBe(1);
      const { status } = await world.reaches("Platform", "shop", "Active");
      expect(status).toMatchObject({ lastRotationRequest: "now" });
      await annotate("again");
      await until("the key is rotated again", async () => (await rotations()) === 2);
    },
  );

  testOfPolicies("rotates no key because a policy strips the time of issue", async () => {
    await installed(strips("issued-at"));
    await world.apply(platform({ keyRotation: { every: "1h" } }));
    await world.reaches("Platform", "shop", "Active");
    await sleep(WATCHED_MS);
    expect(await rotations()).toBe(0);
  });

  testOfPolicies(
    "rotates at most two keys while a policy drops a value of the Secret, and a request helps when the policy is gone",
    async () => {
      const remove = await installed({
        name: "drops-value",
        resource: "secrets",
        when: `${OURS} && 'signing_secret' in object.data`,
        remove: ["/data/signing_secret"],
      });
      await world.apply(platform());
      const limited = await world.reaches("Platform", "shop", "LimitReached");
      expect(limited.status.conditions?.find(({ type }) => type === "Stalled")?.status).toBe("True");
      await sleep(WATCHED_MS);
      expect(await rotations()).toBe(2);
      await remove();
      await sleep(2_000);
      await annotate("repaired");
      await world.reaches("Platform", "shop", "Active");
      expect((await world.secret("shop-credentials"))?.signing_secret).toMatch(/^dps_/);
      expect(await rotations()).toBe(3);
    },
  );

  testOfPolicies(
    "registers nothing for an object whose finalizer a policy strips, and reports why",
    async () => {
      const remove = await installed({
        name: "strips-finalizers",
        resource: "platforms",
        when: "has(object.metadata.finalizers)",
        remove: ["/metadata/finalizers"],
      });
      await world.apply(platform());
      const refused = await world.reaches("Platform", "shop", "ClusterRefused");
      const ready = refused.status.conditions?.find(({ type }) => type === "Ready");
      expect(ready?.message).toContain("removes the finalizer deputize.io/revoke");
      const before = await writes();
      await sleep(WATCHED_MS);
      // Reporting is a change of the object. So the operator visits the object, and writes, once more.
      expect((await writes()) - before).toBeLessThanOrEqual(1);
      expect(await api.db("platforms").where({ account_id: person.accountId })).toEqual([]);
      await remove();
      await world.reaches("Platform", "shop", "Active", 60_000);
    },
  );

  test("writes a Secret rarely while another controller changes the Secret back", async () => {
    await world.apply(platform());
    await world.reaches("Platform", "shop", "Active");
    const data = { base_url: Buffer.from("https://rival.example.test").toString("base64") };
    const rival = startRival(kubernetes, {
      path: secretPath(),
      patch: { data },
      differs: ({ data: live }: { data: Record<string, string> }) => live.base_url !== data.base_url,
    });
    onTestFinished(rival.stop);
    await until("visits are delayed", async () =>
      /visits_delayed_total\{kind="Platform"\} [1-9]/.test(await world.metrics()),
    );
    const before = rival.writes();
    await sleep(WATCHED_MS);
    expect(rival.writes() - before).toBeLessThan(WATCHED_MS / 500);
    expect(await rotations()).toBe(0);
    await rival.stop();
    await until("the operator's address is back", async () => {
      const secret = await world.secret("shop-credentials");
      return secret?.base_url === api.url;
    });
  });

  test("visits an object rarely while another controller resets the status", async () => {
    await world.apply(platform());
    await world.reaches("Platform", "shop", "Active");
    const rival = startRival(kubernetes, {
      path: `${platformPath()}/status`,
      patch: { status: { conditions: null } },
      differs: ({ status }: { status: { conditions?: unknown } }) => status.conditions !== undefined,
    });
    onTestFinished(rival.stop);
    await until("visits are delayed", async () =>
      /visits_delayed_total\{kind="Platform"\} [1-9]/.test(await world.metrics()),
    );
    const before = rival.writes();
    await sleep(WATCHED_MS);
    expect(rival.writes() - before).toBeLessThan(WATCHED_MS / 500);
    expect(await rotations()).toBe(0);
    await rival.stop();
    await world.reaches("Platform", "shop", "Active");
  });
});
