import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { readMigrateConfig } from "../../config.ts";
import { openDatabase } from "../../db/database.ts";
import { takeWay, WaitingEventsError } from "../../events/carrier.ts";
import { type KafkaSettings, kafkaSettings } from "../../input/event_settings.ts";
import { readers } from "../../installation/readers.ts";
import { createLog } from "../../log.ts";
import { type Part, processPart, spawnLogged } from "../process/part.ts";
import { freePort } from "../process/ports.ts";
import { UserError } from "../user_error.ts";
import { KAFKA_VERSION } from "./jars.ts";
import { answers, clusterIdOf, JAVA, settingsOf } from "./nodes.ts";

/** Kafka as a part of the stack; `address` is where it takes connections. */
export type KafkaPart = Part & { address: string };

/** Where its jars are, where java is looked for, as PATH has it, and where it keeps its data. */
export type KafkaPartOptions = { jars: string; path: string | undefined; folder: string };

const GRACE_MS = 20_000;
const START_MS = 120_000;
const EVERY_MS = 100;

/** One node, on free ports of loopback that it keeps until this process ends. Its data is used again. */
export async function kafkaPart({ jars, path, folder }: KafkaPartOptions): Promise<KafkaPart> {
  const place = {
    id: 1,
    folder: join(folder, "node-1"),
    port: await freePort(),
    innerPort: await freePort(),
    controllerPort: await freePort(),
  };
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
    const settings = Object.entries(settingsOf(place, [place], "PLAINTEXT"));
    await writeFile(properties, settings.map(([name, value]) => `${name}=${value}\n`).join(""));
    const format = ["format", "--ignore-formatted", "-t", await clusterIdOf(folder), "-c", properties];
    const args = run("kafka.tools.StorageTool", ...format);
    const { child } = await spawnLogged("java", args, { ...surroundings, logFile });
    const [code] = (await once(child, "exit")) as [number | null];
    if (code !== 0) throw new UserError("Kafka's folder could not be made ready", `Its log is ${logFile}`);
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

async function untilConnects(port: number, signal: AbortSignal): Promise<void> {
  while (!(await answers(port))) {
    signal.throwIfAborted();
    await sleep(EVERY_MS, undefined, { signal });
  }
}

/** What carries the stack's events, as its parts are told; `address` is Kafka's, where there is one. */
export function eventsEnvironment(address: string | undefined): Record<string, string> {
  if (address === undefined) return { EVENTS: "embedded" };
  return { EVENTS: "kafka", KAFKA_BROKERS: address, KAFKA_REPLICATION: "1" };
}

/**
 * Makes the topics, where there is Kafka, and notes the way that events take from now on. To be called while
 * nobody appends events. Throws `UserError` when some still wait to go the other way.
 */
export async function prepareEvents(databaseUrl: string, environment: Record<string, string>): Promise<void> {
  const settings = kafkaSettings(readMigrateConfig({ DATABASE_URL: databaseUrl, ...environment }));
  if (settings !== undefined) await makeTopics(settings);
  const database = openDatabase({ url: databaseUrl, name: "deputize-dev", max: 1, onError: () => {} });
  try {
    await takeWay(database, { way: settings === undefined ? "embedded" : "kafka" }, readers);
  } catch (error) {
    throw error instanceof WaitingEventsError ? waiting(error) : error;
  } finally {
    await database.destroy();
  }
}

/** Kafka's library is loaded only here. */
async function makeTopics(settings: KafkaSettings): Promise<void> {
  const [{ createKafkaClient }, { ensureTopics }] = await Promise.all([
    import("../../events/kafka/client.ts"),
    import("../../events/kafka/topics.ts"),
  ]);
  await ensureTopics(createKafkaClient(settings, createLog("silent", "dev")), settings);
}

function waiting({ left, known }: WaitingEventsError): UserError {
  const how = known === "kafka" ? "with --kafka" : "without --kafka";
  return new UserError(
    `${left} ${left === 1 ? "event still waits" : "events still wait"} to go the way of the last start, ${how}`,
    `Start ${how} once more, give the worker a few seconds, and end it with Ctrl-C; then events can go the other way`,
  );
}
