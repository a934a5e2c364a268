import { setTimeout as sleep } from "node:timers/promises";
import { createKafkaClient } from "../../src/events/kafka/client.ts";
import { createKafkaProducer } from "../../src/events/kafka/producer.ts";
import { topics } from "../../src/events/kafka/settings.ts";
import { SILENT } from "../events/kafka/kafka_world.ts";
import type { KafkaNode } from "../support/kafka.ts";
import { MOMENTS } from "./die_at.ts";
import type { WorkerProcess, World } from "./world.ts";

/** Running parts that a fault may break. `chance` returns the same random numbers for the same seed. */
export type Scene = { world: World; workers: WorkerProcess[]; chance: () => number };

/** Breaks a part and repairs it. Resolves to a description of the fault. */
export type Fault = (scene: Scene) => Promise<string>;

const pick = <T>(all: readonly T[], chance: () => number): T => all[Math.floor(chance() * all.length)] as T;

async function on(scene: Scene, work: (node: KafkaNode) => Promise<void>): Promise<void> {
  await work(pick(scene.world.nodes, scene.chance));
}

/** Faults of brokers, one at a time. Each leaves two of three brokers, except the fault that stops all. */
export const BROKER_FAULTS: readonly Fault[] = [
  async (scene) => {
    await on(scene, async (node) => {
      await node.kill();
      await sleep(8_000 + scene.chance() * 8_000);
      await node.start();
    });
    return "broker killed";
  },
  async (scene) => {
    await on(scene, async (node) => {
      await node.stop();
      await sleep(2_000);
      await node.start();
    });
    return "leaders moved";
  },
  async ({ world: { nodes } }) => {
    await Promise.all(nodes.map((node) => node.kill()));
    await sleep(60_000);
    await Promise.all(nodes.map((node) => node.start()));
    return "all brokers away for a minute";
  },
  async (scene) => {
    await on(scene, async (node) => {
      node.pause();
      await sleep(13_000);
      node.resume();
    });
    return "broker frozen: a produce times out after it was written";
  },
];

/** Faults of the workers, and of the records that they read. */
export const WORKER_FAULTS: readonly Fault[] = [
  async ({ workers, chance }) => {
    await pick(workers, chance).end("SIGKILL");
    return "worker killed";
  },
  async ({ workers, chance }) => {
    const { child } = pick(workers, chance);
    child.kill("SIGSTOP");
    await sleep(8_000 + chance() * 6_000);
    child.kill("SIGCONT");
    return "worker frozen and taken over";
  },
  async ({ world, chance }) => {
    for (let n = 0; n < 5; n += 1) {
      const worker = await world.startWorker();
      await sleep(1_000 + chance() * 1_500);
      await worker.end("SIGTERM");
    }
    return "rebalance storm";
  },
  async ({ world, chance }) => {
    const moment = pick(MOMENTS, chance);
    const worker = await world.startWorker({ DIE_AT: moment });
    for (let waited = 0; worker.isRunning() && waited < 20_000; waited += 100) await sleep(100);
    if (!worker.isRunning()) return `killed at a step: ${moment}`;
    await worker.end("SIGTERM");
    return "a worker came and went";
  },
  async ({ world, chance }) => {
    const producer = createKafkaProducer(createKafkaClient(world.settings, SILENT));
    const topic = `${world.settings.prefix}${topics.lifecycle}`;
    const message = { key: "x", value: `not ours ${chance()}` };
    const isWritten = await producer.send([{ topic, partition: Math.floor(chance() * 6), message }]).then(
      () => true,
      () => false,
    );
    await producer.close();
    return isWritten ? "unreadable record" : "no broker took an unreadable record";
  },
];

/** Stops Postgres immediately and starts it again. */
export const crashPostgres: Fault = async ({ world, chance }) => {
  await world.postgres.crash(chance() * 2_000);
  return "Postgres stopped immediately";
};
