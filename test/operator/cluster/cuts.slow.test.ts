import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { installDefinitions } from "../../support/kubernetes/definitions.ts";
import { type FaultyGateway, startFaultyGateway } from "../../support/kubernetes/faulty_gateway.ts";
import { type Kubernetes, startKubernetes } from "../../support/kubernetes/server.ts";
import { until } from "../../support/process.ts";
import { agent, delegation, only, platform } from "../operator_folder.ts";
import { type OperatorCluster, operatorCluster } from "./operator_cluster.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const binary = await kubernetesBinary();
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

/** The point at which an operator loses its connections: before or after its n-th write. */
type Cut = { at: number; side: "before" | "after" };
type World = OperatorCluster & { requestId(): string };
type Scenario = {
  given(world: World): Promise<void>;
  when(world: World): Promise<void>;
  /** The final state must be the same for every cut. */
  ends(world: World): Promise<void>;
};

const RETIRING = { deletionPolicy: "Delete" };
const declared = async (world: World) => {
  await world.apply(platform(RETIRING), agent(RETIRING), delegation());
};
const awaiting = async (world: World) => {
  await declared(world);
  await world.reaches("Delegation", "bot", "AwaitingApproval");
};
const active = async (world: World) => {
  await awaiting(world);
  world.api.approve(world.requestId(), ["data:read"]);
  await world.reaches("Delegation", "bot", "Active");
};
/** Checks that the Secret contains the Platform's only key, and that the API knows this key. */
const published = async (world: World) => {
  await until("the credentials are acknowledged", () => !only(world.api.platforms).undelivered);
  const secret = await world.secret("shop-credentials");
  expect(secret?.api_key).toBe(only(world.api.platforms).api_key);
};

const scenarios: Record<string, Scenario> = {
  "everything is declared": {
    given: async () => undefined,
    when: declared,
    async ends(world) {
      await world.reaches("Delegation", "bot", "AwaitingApproval");
      await world.reaches("Platform", "shop", "Active");
      await published(world);
      expect(only(world.api.platforms).retired).toEqual([]);
      expect(only(world.api.agents).disabled).toBe(false);
      expect(only(world.api.delegations).status).toBe("pending");
    },
  },
  "a delegation is approved": {
    given: awaiting,
    when: async (world) => world.api.approve(world.requestId(), ["data:read"]),
    async ends(world) {
      await world.reaches("Delegation", "bot", "Active");
      expect(only(world.api.delegations).status).toBe("approved");
    },
  },
  "a delegation is revoked": {
    given: active,
    when: (world) => world.apply(delegation({ revoked: true })),
    async ends(world) {
      await world.reaches("Delegation", "bot", "Revoked");
      expect(only(world.api.delegations).status).toBe("revoked");
    },
  },
  "the Secret is deleted": {
    given: active,
    when: (world) => world.removeSecret("shop-credentials"),
    async ends(world) {
      await until("there is a Secret", async () => (await world.secret("shop-credentials")) !== undefined);
      await published(world);
      expect(world.api.platforms.size).toBe(1);
    },
  },
  "the Secret is to have another name": {
    given: active,
    when: (world) => world.apply(platform({ ...RETIRING, credentialsSecretName: "moved" })),
    async ends(world) {
      await until(
        "the Secret with the new name exists",
        async () => (await world.secret("moved")) !== undefined,
      );
      await until("the old one is gone", async () => (await world.secret("shop-credentials")) === undefined);
      expect((await world.secret("moved"))?.api_key).toBe(only(world.api.platforms).api_key);
    },
  },
  "everything is deleted": {
    given: active,
    async when(world) {
      await world.remove("Platform", "shop");
      await world.remove("Agent", "bot");
      await world.remove("Delegation", "bot");
    },
    async ends(world) {
      await world.gone("Delegation", "bot");
      await world.gone("Agent", "bot");
      await world.gone("Platform", "shop");
      expect(only(world.api.delegations).status).toBe("revoked");
      expect(only(world.api.agents).disabled).toBe(true);
      expect(only(world.api.platforms).removed).toBe(true);
      expect(await world.secret("shop-credentials")).toBeUndefined();
    },
  },
};

describe.skipIf(binary.missing !== undefined)("an operator that loses all connections", () => {
  let kubernetes: Kubernetes;
  let gateway: FaultyGateway;

  beforeAll(async () => {
    kubernetes = await startKubernetes(binary.path ?? "");
    await installDefinitions(kubernetes);
    gateway = await startFaultyGateway(kubernetes);
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await gateway?.stop();
    await kubernetes?.stop();
  });

  /**
   * Runs a scenario with an operator that loses its connections at `cut`, and then with a second operator.
   * Returns the number of the first operator's writes.
   */
  async function play({ given, when, ends }: Scenario, cut: Cut | undefined): Promise<number> {
    const cluster = await operatorCluster(kubernetes, gateway);
    const requestId = () => only(cluster.api.delegations).request_id;
    const world: World = { ...cluster, requestId };
    let writes = 0;
    let isCut = false;
    /** Returns what happens to the next write. All writes after the cut are lost. */
    const fate = (): "cut" | "lost" | undefined => {
      if (isCut) return "cut";
      writes += 1;
      if (writes !== cut?.at) return undefined;
      isCut = true;
      return cut.side === "before" ? "cut" : "lost";
    };
    try {
      const first = await world.start();
      await given(world);
      writes = 0;
      gateway.setRule((method, url) => {
        const isRead =
          method === "GET" || url.pathname.includes("/leases") || url.pathname.endsWith("/events");
        const what = isRead && !isCut ? undefined : fate();
        return what === "cut" ? "reset" : what;
      });
      world.api.intercept((_, path) => (path.endsWith("/state") && !isCut ? undefined : fate()));
      await when(world);
      if (cut === undefined) {
        await ends(world);
        return writes;
      }
      // Also stops waiting at the final state: in a different order of events, this write may never come.
      const never = new Promise<void>(() => undefined);
      await Promise.race([until(`write ${cut.at} came`, () => isCut), ends(world).catch(() => never)]);
      await first.stop();
      gateway.setRule();
      world.api.intercept(() => undefined);
      await world.lease("DELETE");
      await world.start();
      await ends(world);
      return writes;
    } finally {
      gateway.setRule();
      await world.dispose();
    }
  }

  test.each(Object.entries(scenarios))(
    "at any write while %s, leaves a state that the next operator completes",
    async (_, scenario) => {
      const count = await play(scenario, undefined);
      expect(count).toBeGreaterThan(0);
      for (let at = 1; at <= count; at += 1) {
        for (const side of ["before", "after"] as const) {
          await play(scenario, { at, side }).catch((error: unknown) => {
            throw new Error(`${side} write ${at} of ${count}: ${String(error)}`, { cause: error });
          });
        }
      }
      console.info(`cut ${2 * count} times`);
    },
    600_000,
  );
});
