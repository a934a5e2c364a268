import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { installDefinitions } from "../../support/kubernetes/definitions.ts";
import { type Kubernetes, startKubernetes } from "../../support/kubernetes/server.ts";
import { killHard, until } from "../../support/process.ts";
import { agent, delegation, only, platform } from "../operator_folder.ts";
import { type OperatorCluster, operatorCluster } from "./operator_cluster.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const binary = await kubernetesBinary();
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

describe.skipIf(binary.missing !== undefined)("operators in a real cluster", { timeout: 90_000 }, () => {
  let kubernetes: Kubernetes;
  let world: OperatorCluster;

  beforeAll(async () => {
    kubernetes = await startKubernetes(binary.path ?? "");
    await installDefinitions(kubernetes);
  }, BUILD_TIMEOUT_MS);
  afterAll(() => kubernetes?.stop());
  beforeEach(async () => {
    world = await operatorCluster(kubernetes);
  });
  afterEach(() => world.dispose());

  const declare = async () => {
    await world.apply(platform(), agent(), delegation());
    return world.reaches("Delegation", "bot", "AwaitingApproval");
  };

  test("reconcile a Platform, an Agent and a Delegation, from creation to deletion", async () => {
    const operator = await world.start();
    const requested = await declare();
    expect(await operator.isReady()).toBe(true);
    expect(only(world.api.platforms).undelivered).toBe(false);
    world.api.approve(String((requested.status as { requestID?: string }).requestID), ["data:read"]);
    const active = await world.reaches("Delegation", "bot", "Active");
    expect(active.status).toMatchObject({ approvedScope: ["data:read"], certStatus: "Active" });
    await world.apply(delegation({ revoked: true }));
    await world.reaches("Delegation", "bot", "Revoked");
    expect(only(world.api.delegations).status).toBe("revoked");
    for (const [kind, name] of [
      ["Delegation", "bot"],
      ["Agent", "bot"],
      ["Platform", "shop"],
    ] as const) {
      await world.remove(kind, name);
      await world.gone(kind, name);
    }
  });

  test("write nothing after a restart if nothing has changed", async () => {
    const first = await world.start();
    await declare();
    await first.stop();
    const before = await Promise.all(
      (["Platform", "Agent", "Delegation"] as const).map((kind) =>
        world.find(kind, kind === "Platform" ? "shop" : "bot"),
      ),
    );
    world.api.calls.length = 0;
    await world.start();
    await until("every object was reconciled", () => world.api.callsTo("PUT", "/platforms").length === 1);
    await sleep(1500);
    const after = await Promise.all(
      (["Platform", "Agent", "Delegation"] as const).map((kind) =>
        world.find(kind, kind === "Platform" ? "shop" : "bot"),
      ),
    );
    expect(after).toEqual(before);
  });

  test("have one leader, and the other operator takes over when the leader stops", async () => {
    const [first, second] = [await world.start(), await world.start()];
    await until("one leads", () => first.isLeading() || second.isLeading());
    await sleep(3000);
    expect([first.isLeading(), second.isLeading()].filter(Boolean)).toHaveLength(1);
    const [leader, other] = first.isLeading() ? [first, second] : [second, first];
    await declare();
    await leader.stop();
    await until("the other leads", () => other.isLeading(), 5000);
    await world.apply(delegation({ revoked: true }));
    await world.reaches("Delegation", "bot", "Revoked");
    expect(world.api.leader.epoch).toBe(2);
  });

  test("take over from a killed leader after its lease has expired", async () => {
    const { child } = await world.spawn();
    await until("it leads", async () => (await world.holder()) !== undefined);
    await declare();
    const killed = await world.holder();
    await killHard(child);
    const next = await world.start();
    await sleep(5000);
    expect(next.isLeading()).toBe(false);
    await until("the next one leads", () => next.isLeading(), 25_000);
    expect(await world.holder()).not.toBe(killed);
    await world.apply(delegation({ revoked: true }));
    await world.reaches("Delegation", "bot", "Revoked");
  });

  test("keep the leader and its epoch when the Lease is deleted", async () => {
    const operator = await world.start();
    await declare();
    await world.lease("DELETE");
    await until("the Lease exists again", async () => ((await world.holder()) ?? "") !== "");
    await world.apply(delegation({ revoked: true }));
    await world.reaches("Delegation", "bot", "Revoked");
    expect(operator.isLeading()).toBe(true);
    expect(world.api.leader.epoch).toBe(1);
  });

  test("stop leading when a different process takes the Lease, and wait until they can lead again", async () => {
    const operator = await world.start();
    await declare();
    await world.lease("PATCH", { spec: { holderIdentity: "somebody" } });
    await until("it no longer leads", () => !operator.isLeading());
    await world.apply(delegation({ revoked: true }));
    await sleep(2000);
    expect(only(world.api.delegations).status).toBe("pending");
    await until("it leads again", () => operator.isLeading(), 25_000);
    await world.reaches("Delegation", "bot", "Revoked");
    expect(await world.events(world.systemNamespace)).toContain("LeaseLost");
    expect(await world.metrics()).toContain('deputize_operator_lead_losses_total{cause="lost"} 1');
  });

  test("run for leader again, with an Event, when the API no longer accepts their epoch", async () => {
    const operator = await world.start();
    await declare();
    world.api.leader.epoch += 5;
    await world.apply(delegation({ revoked: true }));
    await world.reaches("Delegation", "bot", "Revoked");
    expect(operator.isLeading()).toBe(true);
    await until("the Event exists", async () =>
      (await world.events(world.systemNamespace)).includes("Superseded"),
    );
    const metrics = await world.metrics();
    expect(metrics).toContain('deputize_operator_lead_losses_total{cause="superseded"} 1');
    expect(metrics).toContain('leader_election_master_status{name="deputize-operator"} 1');
    for (const resource of ["platforms", "agents", "delegations", "secrets", "configmaps"]) {
      expect(metrics).toContain(`deputize_operator_synced{resource="${resource}"} 1`);
    }
    expect(metrics).toMatch(
      /rest_client_requests_total\{code="200",method="PATCH",host="127\.0\.0\.1:\d+"\} /,
    );
    expect(operator.isAlive()).toBe(true);
  });

  test("write nothing after a pause during which another operator became leader", async () => {
    const { child } = await world.spawn();
    await until("it leads", async () => (await world.holder()) !== undefined);
    await declare();
    child.kill("SIGSTOP");
    const next = await world.start();
    await until("the next one leads", () => next.isLeading(), 25_000);
    const holder = await world.holder();
    await world.apply(delegation({}, { name: "second" }));
    await world.reaches("Delegation", "second", "AwaitingApproval");
    world.api.calls.length = 0;
    const epoch = world.api.leader.epoch;
    child.kill("SIGCONT");
    await sleep(5000);
    expect(next.isLeading()).toBe(true);
    expect(await world.holder()).toBe(holder);
    expect(world.api.leader.epoch).toBe(epoch);
    expect(only(world.api.platforms).retired).toEqual([]);
    expect(world.api.delegations.size).toBe(2);
  });
});
