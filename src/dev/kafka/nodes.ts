import type { ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir, open, readFile, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { spawnTied } from "../process/lifeline.mjs";
import { freePort } from "../process/ports.ts";

/** A broker that is its own controller too. */
export type KafkaNode = {
  id: number;
  address: string;
  /** Starts it again where it was; resolves when it takes connections. */
  start(): Promise<void>;
  /** Ends it immediately. */
  kill(): Promise<void>;
  /** Lets it finish what is under way. */
  stop(): Promise<void>;
  /** Freezes it, and lets it go on. */
  pause(): void;
  resume(): void;
};

/** Running brokers on loopback that form one cluster. They cannot outlive this process. */
export type KafkaNodes = { brokers: string[]; nodes: KafkaNode[]; stop(): Promise<void> };

/** How they are started. */
export type KafkaOptions = {
  jars: string;
  /** Where java is looked for, as PATH has it. */
  path: string;
  /** Where the nodes keep their data. One that has data already goes on with it. */
  folder: string;
  count?: 1 | 3;
  /** Further settings of every node, and of how people's listener is secured. */
  settings?: Record<string, string>;
  protocol?: "PLAINTEXT" | "SASL_SSL" | "SSL" | "SASL_PLAINTEXT";
  /** Users that the cluster begins with. */
  scram?: { mechanism: "SCRAM-SHA-256" | "SCRAM-SHA-512"; name: string; password: string }[];
};

/** A node's folder, and its ports for people, for other nodes and for controllers. */
export type Place = { id: number; folder: string; port: number; innerPort: number; controllerPort: number };

/** Options of java for a small node. */
export const JAVA = ["-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
const READY_MS = 60_000;
const STOP_MS = 20_000;

/** Starts one node, or three with every partition on all of them. */
export async function startKafka(options: KafkaOptions): Promise<KafkaNodes> {
  const { folder, count = 1 } = options;
  await mkdir(folder, { recursive: true });
  const clusterId = await clusterIdOf(folder);
  const places: Place[] = [];
  for (let id = 1; id <= count; id += 1) {
    const place = { id, folder: join(folder, `node-${id}`) };
    places.push({
      ...place,
      port: await freePort(),
      innerPort: await freePort(),
      controllerPort: await freePort(),
    });
  }
  const nodes: KafkaNode[] = [];
  try {
    for (const place of places) nodes.push(await makeNode(place, places, clusterId, options));
    await Promise.all(nodes.map((node) => node.start()));
  } catch (error) {
    await Promise.all(nodes.map((node) => node.kill()));
    throw error;
  }
  return {
    brokers: nodes.map(({ address }) => address),
    nodes,
    stop: async () => void (await Promise.all(nodes.map((node) => node.stop()))),
  };
}

/** The id of the cluster of a folder, made the first time. */
export async function clusterIdOf(folder: string): Promise<string> {
  const file = join(folder, "cluster_id");
  const fresh = randomBytes(16).toString("base64url");
  await writeFile(file, fresh, { flag: "wx" }).catch(() => undefined);
  return readFile(file, "utf8");
}

async function makeNode(
  place: Place,
  places: Place[],
  clusterId: string,
  { jars, path, settings = {}, protocol = "PLAINTEXT", scram = [] }: KafkaOptions,
): Promise<KafkaNode> {
  await mkdir(place.folder, { recursive: true });
  const properties = join(place.folder, "server.properties");
  const all = { ...settingsOf(place, places, protocol), ...settings };
  const lines = Object.entries(all).map(([name, value]) => `${name}=${value.replaceAll("\n", "\\n")}`);
  await writeFile(properties, `${lines.join("\n")}\n`, { mode: 0o600 });
  const users = scram.flatMap(({ mechanism, name, password }) => [
    "--add-scram",
    `${mechanism}=[name=${name},password=${password}]`,
  ]);
  const java = (...args: string[]) => spawnJava(place.folder, path, [...JAVA, "-cp", `${jars}/*`, ...args]);
  // The id may begin with a dash.
  const format = ["format", "--ignore-formatted", `--cluster-id=${clusterId}`, "-c", properties, ...users];
  const [code] = await once(await java("kafka.tools.StorageTool", ...format), "exit");
  if (code !== 0) throw new Error(`Kafka's folder was not made: ${await lastLines(place.folder)}`);
  let child: ChildProcess | undefined;
  const address = `127.0.0.1:${place.port}`;

  async function end(signal: NodeJS.Signals): Promise<void> {
    const running = child;
    if (running === undefined || running.exitCode !== null || running.signalCode !== null) return;
    const exit = once(running, "exit");
    running.kill(signal);
    running.kill("SIGCONT");
    const timer = setTimeout(() => running.kill("SIGKILL"), STOP_MS);
    await exit;
    clearTimeout(timer);
  }

  return {
    id: place.id,
    address,
    async start() {
      child = await java("kafka.Kafka", properties);
      for (let waited = 0; waited < READY_MS; waited += 100) {
        if (await answers(place.port)) return;
        if (child.exitCode !== null) throw new Error(`Kafka ended: ${await lastLines(place.folder)}`);
        await sleep(100);
      }
      throw new Error(`Kafka did not begin within a minute: ${await lastLines(place.folder)}`);
    },
    kill: () => end("SIGKILL"),
    stop: () => end("SIGTERM"),
    pause: () => void child?.kill("SIGSTOP"),
    resume: () => void child?.kill("SIGCONT"),
  };
}

/** The settings of a node that is a broker and a controller, in a cluster with those at `places`. */
export function settingsOf(
  { id, folder, port, innerPort, controllerPort }: Place,
  places: Place[],
  protocol: string,
): Record<string, string> {
  const copies = String(places.length);
  const inSync = String(Math.max(1, places.length - 1));
  const between = `PEOPLE://127.0.0.1:${port},BROKERS://127.0.0.1:${innerPort}`;
  const voters = places.map((each) => `${each.id}@127.0.0.1:${each.controllerPort}`);
  return {
    "process.roles": "broker,controller",
    "node.id": String(id),
    "controller.quorum.voters": voters.join(","),
    listeners: `${between},CONTROLLER://127.0.0.1:${controllerPort}`,
    "advertised.listeners": between,
    "listener.security.protocol.map": `PEOPLE:${protocol},BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT`,
    "inter.broker.listener.name": "BROKERS",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": join(folder, "data"),
    "num.partitions": "1",
    "default.replication.factor": copies,
    "min.insync.replicas": inSync,
    "offsets.topic.replication.factor": copies,
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": copies,
    "transaction.state.log.min.isr": inSync,
    "share.coordinator.state.topic.replication.factor": copies,
    "share.coordinator.state.topic.min.isr": inSync,
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
  };
}

async function spawnJava(folder: string, path: string, args: string[]): Promise<ChildProcess> {
  const log = await open(join(folder, "kafka.log"), "w");
  try {
    const env = { PATH: path, HOME: folder };
    return spawnTied("java", args, { cwd: folder, env, stdio: ["ignore", log.fd, log.fd] });
  } finally {
    await log.close();
  }
}

async function lastLines(folder: string): Promise<string> {
  const text = await readFile(join(folder, "kafka.log"), "utf8").catch(() => "");
  return text.trim().split("\n").slice(-3).join(" | ");
}

/** Whether something on 127.0.0.1 takes a connection at a port. */
export async function answers(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
