import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { kafkaJars } from "../../src/dev/kafka/jars.ts";
import { type KafkaOptions, type KafkaPlace, kafkaParts } from "../../src/dev/kafka/nodes.ts";
import type { RunningPart } from "../../src/dev/process/part.ts";

export type KafkaNode = {
  /** Starts the broker, always on the same port. Resolves when the broker accepts connections. */
  start(): Promise<void>;
  kill(): Promise<void>;
  stop(): Promise<void>;
  pause(): void;
  resume(): void;
};

/** A cluster of brokers on loopback. They stop when this process exits. */
export type TestKafka = { brokers: string[]; nodes: KafkaNode[]; stop(): Promise<void> };

type StartOptions = KafkaOptions & { count?: 1 | 3 };

/** Starts one node, or three nodes that each hold every partition. */
export async function startKafka(place: KafkaPlace, options: StartOptions = {}): Promise<TestKafka> {
  await mkdir(place.folder, { recursive: true });
  const parts = await kafkaParts(place, options.count, options);
  const running = new Map<number, RunningPart>();
  const nodes = parts.map((part, n): KafkaNode => {
    const send = (signal: NodeJS.Signals) => void process.kill(running.get(n)?.pid ?? 0, signal);
    return {
      async start() {
        const logFile = join(place.folder, `node-${n + 1}.log`);
        const signal = new AbortController().signal;
        running.set(n, await part.start({ logFile, signal, spawned: () => undefined }));
      },
      async kill() {
        running.get(n)?.kill();
        await running.get(n)?.exited;
      },
      stop: async () => running.get(n)?.stop(),
      pause: () => send("SIGSTOP"),
      resume: () => send("SIGCONT"),
    };
  });
  try {
    await Promise.all(nodes.map((node) => node.start()));
  } catch (error) {
    await Promise.all(nodes.map((node) => node.kill()));
    throw error;
  }
  return {
    brokers: parts.map(({ address }) => address),
    nodes,
    stop: async () => void (await Promise.all(nodes.map((node) => node.stop()))),
  };
}

/**
 * Returns a function that starts Kafka, or what is missing. `needsOwn`: the test needs a separate cluster,
 * because it stops nodes or sets up special security.
 */
export async function kafkaForTests({ needsOwn = false } = {}): Promise<{
  missing?: string;
  start(options?: StartOptions): Promise<TestKafka>;
}> {
  const { KAFKA_BROKERS_TEST: given = "" } = process.env;
  if (given !== "" && needsOwn) {
    return { missing: "separate brokers, which KAFKA_BROKERS_TEST rules out", start };
  }
  if (given !== "") {
    return { start: async () => ({ brokers: given.split(","), nodes: [], stop: async () => undefined }) };
  }
  const { missing } = await kafkaJars();
  return { ...(missing !== undefined && { missing }), start };
}

async function start(options: StartOptions = {}): Promise<TestKafka> {
  const { jars = "" } = await kafkaJars();
  const folder = await mkdtemp(join(tmpdir(), "deputize-kafka-"));
  const kafka = await startKafka({ jars, folder, path: process.env.PATH }, options);
  return {
    ...kafka,
    async stop() {
      await kafka.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
