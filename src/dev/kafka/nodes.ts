import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Part, processPart, spawnLogged } from "../process/part.ts";
import { freePort } from "../process/ports.ts";
import { UserError } from "../user_error.ts";
import { KAFKA_VERSION } from "./jars.ts";

/** Kafka as a part of the stack. `address` is its client address. */
export type KafkaPart = Part & { address: string };

/** Kafka's place on this machine. `path` is a PATH that contains `java`. `folder` is for the nodes' data. */
export type KafkaPlace = { jars: string; path: string | undefined; folder: string };

/** Options that differ from those of a default node. */
export type KafkaOptions = {
  /** Additional settings of every node. */
  settings?: Record<string, string>;
  protocol?: "PLAINTEXT" | "SASL_SSL" | "SSL" | "SASL_PLAINTEXT";
  /** Users that exist when the cluster starts. */
  scram?: { mechanism: "SCRAM-SHA-256" | "SCRAM-SHA-512"; name: string; password: string }[];
};

type Place = { id: number; folder: string; port: number; innerPort: number; controllerPort: number };

const JAVA = ["-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
const GRACE_MS = 20_000;
const START_MS = 120_000;
const EVERY_MS = 100;

/**
 * Returns the nodes of a cluster. Each node is a broker and a controller and holds every partition. Nodes
 * listen on free loopback ports, which stay reserved until this process exits. Reuses existing data.
 */
export async function kafkaParts(
  { jars, path, folder }: KafkaPlace,
  count: 1 | 3 = 1,
  options: KafkaOptions = {},
): Promise<KafkaPart[]> {
  const places: Place[] = [];
  for (let id = 1; id <= count; id += 1) {
    const [port, innerPort, controllerPort] = [await freePort(), await freePort(), await freePort()];
    places.push({ id, folder: join(folder, `node-${id}`), port, innerPort, controllerPort });
  }
  return places.map((place) => kafkaPart(place, places, { jars, path, folder }, options));
}

function kafkaPart(
  place: Place,
  places: Place[],
  { jars, path, folder }: KafkaPlace,
  { settings, protocol = "PLAINTEXT", scram = [] }: KafkaOptions,
): KafkaPart {
  const properties = join(place.folder, "server.properties");
  const run = (...args: string[]) => [...JAVA, "-cp", `${jars}/*`, ...args];
  const surroundings = { env: { PATH: path, HOME: place.folder }, cwd: place.folder, graceMs: GRACE_MS };
  const address = `127.0.0.1:${place.port}`;
  const server = processPart({
    name: "kafka",
    title: `Kafka ${KAFKA_VERSION} on ${address}`,
    ports: [{ port: place.port, setting: "another start" }],
    command: "java",
    args: run("kafka.Kafka", properties),
    ready: (signal) => untilConnects(place.port, signal),
    startMs: START_MS,
    ...surroundings,
  });

  async function prepare(logFile: string): Promise<void> {
    await mkdir(place.folder, { recursive: true, mode: 0o700 });
    const all = Object.entries({ ...settingsOf(place, places, protocol), ...settings });
    const lines = all.map(([name, value]) => `${name}=${value.replaceAll("\n", "\\n")}\n`);
    await writeFile(properties, lines.join(""), { mode: 0o600 });
    const users = scram.flatMap(({ mechanism, name, password }) => [
      "--add-scram",
      `${mechanism}=[name=${name},password=${password}]`,
    ]);
    // The ID may begin with a dash, so it cannot be a separate argument.
    const id = `--cluster-id=${await clusterIdOf(folder)}`;
    const args = run(
      "kafka.tools.StorageTool",
      "format",
      "--ignore-formatted",
      id,
      "-c",
      properties,
      ...users,
    );
    const { child } = await spawnLogged("java", args, { ...surroundings, logFile });
    const [code] = (await once(child, "exit")) as [number | null];
    if (code !== 0) throw new UserError("Kafka's folder could not be formatted", `Its log is ${logFile}`);
  }

  let prepared: Promise<void> | undefined;
  return {
    ...server,
    address,
    async start(context) {
      prepared ??= prepare(context.logFile);
      await prepared;
      return server.start(context);
    },
  };
}

/** Returns a folder's cluster ID. The first call creates the ID. */
async function clusterIdOf(folder: string): Promise<string> {
  const file = join(folder, "cluster_id");
  const fresh = randomBytes(16).toString("base64url");
  await writeFile(file, fresh, { flag: "wx" }).catch(() => undefined);
  return readFile(file, "utf8");
}

function settingsOf(
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

async function untilConnects(port: number, signal: AbortSignal): Promise<void> {
  while (!(await answers(port))) {
    signal.throwIfAborted();
    await sleep(EVERY_MS, undefined, { signal });
  }
}

/** Checks whether a port on 127.0.0.1 accepts connections. */
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
