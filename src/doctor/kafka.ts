import { setTimeout as sleep } from "node:timers/promises";
import { explained } from "../events/kafka/client.ts";
import {
  type AdvertisedBroker,
  type ClusterFacts,
  createKafkaProbe,
  type GroupFacts,
  type KafkaProbe,
  type TopicFacts,
} from "../events/kafka/probe.ts";
import { groupOf, wantedTopics } from "../events/kafka/settings.ts";
import { type KafkaSettings, kafkaSettings } from "../input/event_settings.ts";
import { networkFault } from "../input/network_fault.ts";
import { readers } from "../installation/readers.ts";
import { type Check, check, type Finding, failed, NotChecked, ok, skipped } from "./check.ts";
import type { Settings } from "./settings.ts";

const STEP_MS = 3_000;
const NEEDS = ["EVENTS", "KAFKA_BROKERS"] as const;

/** One broker's view of the cluster. `minimums` are the topics' settings min.insync.replicas. */
type Facts = ClusterFacts & { minimums: Map<string, number>; groups: GroupFacts[] };
type Bootstrap = { broker: string; facts?: Facts; error?: unknown };

/** The use that a role makes of Kafka: it creates the topics, or it writes and reads records. */
export type KafkaUse = { createsTopics: boolean; usesTopics: boolean };

/** Returns the checks of Kafka. */
export function kafkaChecks({ createsTopics, usesTopics }: KafkaUse): Check[] {
  let asked: Promise<Bootstrap[]> | undefined;
  const askAll = (settings: KafkaSettings) => {
    asked ??= Promise.all(settings.brokers.map((broker) => askBroker(settings, broker)));
    return asked;
  };
  const about = (
    name: string,
    judge: (settings: KafkaSettings, facts: Facts) => Promise<Finding> | Finding,
  ) =>
    check(name, NEEDS, async (all) => {
      const settings = settingsOf(all);
      const bootstrap = (await askAll(settings)).find(({ facts }) => facts !== undefined);
      if (bootstrap?.facts === undefined) throw new NotChecked("no broker answers");
      return judge(settings, bootstrap.facts);
    });

  return [
    check("kafka brokers", NEEDS, async (all) => {
      const settings = settingsOf(all);
      return judgeBootstrap(settings, await askAll(settings));
    }),
    about("kafka listeners", (settings, { brokers }) => judgeListeners(settings, brokers)),
    about("kafka topics", (settings, facts) => judgeTopics(settings, facts, createsTopics)),
    ...(usesTopics ? [about("kafka rights", judgeRights)] : []),
  ];
}

/** All of Kafka's settings must be valid, because together they determine the connection. */
function settingsOf(settings: Settings): KafkaSettings {
  const { KAFKA_PREFIX, KAFKA_PARTITIONS, KAFKA_REPLICATION, KAFKA_TLS } = settings;
  const others = [KAFKA_PREFIX, KAFKA_PARTITIONS, KAFKA_REPLICATION, KAFKA_TLS];
  const all = kafkaSettings(settings as Parameters<typeof kafkaSettings>[0]);
  if (others.includes(undefined) || all === undefined) {
    throw new NotChecked("other settings of Kafka are wrong");
  }
  return all;
}

async function askBroker(settings: KafkaSettings, broker: string): Promise<Bootstrap> {
  const [host = "", port] = broker.split(":");
  const probe = createKafkaProbe(settings, { host, port: Number(port) }, STEP_MS);
  try {
    await probe.connect();
    const topics = Object.values(wantedTopics(settings)).map(({ topic }) => topic);
    const cluster = await probe.describe(topics);
    const minimums = new Map<string, number>();
    for (const topic of topics) {
      // Without the right to describe settings, the minimum stays unknown.
      const text = await probe.topicSetting(topic, "min.insync.replicas").catch(() => undefined);
      if (text !== undefined) minimums.set(topic, Number(text));
    }
    const groups = await Promise.all(
      readers.map((reader) => readGroup(settings, probe, groupOf(settings, reader))),
    );
    return { broker, facts: { ...cluster, minimums, groups } };
  } catch (error) {
    return { broker, error };
  } finally {
    await probe.close().catch(() => undefined);
  }
}

const TRIES = 6;
const AGAIN_MS = 400;

/** Asks the group's coordinator. A new cluster needs a moment to choose one. */
async function readGroup(settings: KafkaSettings, probe: KafkaProbe, group: string): Promise<GroupFacts> {
  const unknown: GroupFacts = { group, error: 0, operations: undefined };
  for (let tries = 0; tries < TRIES; tries += 1) {
    try {
      const coordinator = createKafkaProbe(settings, await probe.coordinatorOf(group), STEP_MS);
      try {
        await coordinator.connect();
        const facts = await coordinator.describeGroup(group);
        if (facts.operations !== undefined || facts.error === GROUP_NOT_ALLOWED) return facts;
      } finally {
        await coordinator.close().catch(() => undefined);
      }
    } catch (error) {
      const { type } = error as { type?: unknown };
      if (type === "GROUP_AUTHORIZATION_FAILED") return { ...unknown, error: GROUP_NOT_ALLOWED };
      if (type === undefined) return unknown;
    }
    await sleep(AGAIN_MS);
  }
  return unknown;
}

const GROUP_NOT_ALLOWED = 30;

function judgeBootstrap(settings: KafkaSettings, asked: readonly Bootstrap[]): Finding {
  const away = asked.filter(({ facts }) => facts === undefined);
  const answering = asked.length - away.length;
  const [first] = away;
  if (first === undefined) return ok(`${answering} of ${asked.length} brokers of KAFKA_BROKERS answer`);
  const why = networkFault(first.error)?.what ?? explained(first.error, settings).message;
  return failed(
    `${answering} of ${asked.length} brokers of KAFKA_BROKERS answer; ${first.broker}: ${why}`,
    networkFault(first.error)?.action ?? "Correct the settings of Kafka, see docs/events.md.",
  );
}

async function judgeListeners(
  settings: KafkaSettings,
  brokers: readonly AdvertisedBroker[],
): Promise<Finding> {
  const tried = await Promise.all(
    brokers.map(async ({ id, host, port }) => {
      const probe = createKafkaProbe(settings, { host, port }, STEP_MS);
      const error = await probe.connect().then(
        () => undefined,
        (reason: unknown) => reason,
      );
      await probe.close().catch(() => undefined);
      return { name: `broker ${id} at ${host}:${port}`, error };
    }),
  );
  const away = tried.filter(({ error }) => error !== undefined);
  if (away.length === 0) return ok(`all ${brokers.length} advertised listeners can be reached`);
  const lines = away.map(({ name, error }) => {
    return `${name}: ${networkFault(error)?.what ?? explained(error, settings).message}`;
  });
  return failed(
    `Kafka advertises listeners that cannot be reached from here:\n${lines.join("\n")}`,
    "Correct advertised.listeners of the brokers, or let this network reach these addresses.",
  );
}

const UNKNOWN_TOPIC = 3;
const NOT_ALLOWED = 29;

function judgeTopics(settings: KafkaSettings, facts: Facts, createsTopics: boolean): Finding {
  const wanted = Object.values(wantedTopics(settings));
  const faults = wanted.flatMap(({ topic, partitions }) => {
    const found = facts.topics.find((each) => each.topic === topic);
    if (found === undefined || found.error === UNKNOWN_TOPIC) return [`${topic} is missing`];
    if (found.error === NOT_ALLOWED) return [`${topic} may not be described`];
    const form = createsTopics ? formFaults(found, { partitions, replication: settings.replication }) : [];
    return [...form, ...stateFaults(found, facts.minimums.get(topic))];
  });
  if (faults.length === 0) return ok(`${wanted.length} topics have the wanted form and accept events`);
  return failed(
    faults.join("\n"),
    "Run deputize migrate to create missing topics. Change existing ones with Kafka's tools, or correct the settings.",
  );
}

/** Only the role that creates topics knows how many partitions and replicas they should have. */
function formFaults(
  { topic, partitions }: TopicFacts,
  wanted: { partitions: number; replication: number },
): string[] {
  const replicas = fewest(partitions.map((each) => each.replicas));
  return [
    partitions.length === wanted.partitions
      ? []
      : `${topic} has ${partitions.length} partitions, not ${wanted.partitions}`,
    replicas < wanted.replication ? `${topic} has ${replicas} replicas, not ${wanted.replication}` : [],
  ].flat();
}

function stateFaults({ topic, partitions }: TopicFacts, minimum = 1): string[] {
  if (partitions.some(({ hasLeader }) => !hasLeader)) return [`${topic} has partitions without a leader`];
  const [replicas, inSync] = [
    fewest(partitions.map((each) => each.replicas)),
    fewest(partitions.map((each) => each.inSync)),
  ];
  if (inSync < minimum) {
    return [`${topic} has ${inSync} replicas in sync and needs ${minimum} to accept events`];
  }
  if (minimum > 1 && minimum >= replicas) {
    return [
      `${topic} accepts no events while one of its ${replicas} brokers is away (min.insync.replicas=${minimum})`,
    ];
  }
  return [];
}

function fewest(counts: readonly number[]): number {
  return Math.min(...counts);
}

const [READ, WRITE, DESCRIBE] = [3, 4, 8];
const NAMES = new Map([
  [READ, "Read"],
  [WRITE, "Write"],
  [DESCRIBE, "Describe"],
]);

function judgeRights(settings: KafkaSettings, { topics, groups }: Facts): Finding {
  const { lifecycle, audit, deadLetters } = wantedTopics(settings);
  const wanted = [
    { topic: lifecycle.topic, codes: [READ, WRITE] },
    { topic: audit.topic, codes: [WRITE] },
    { topic: deadLetters.topic, codes: [WRITE] },
  ];
  const faults = [
    ...wanted.flatMap(({ topic, codes }) => {
      const found = topics.find((each) => each.topic === topic);
      if (found === undefined || found.error === UNKNOWN_TOPIC) return [];
      const has = found.error === NOT_ALLOWED ? new Set<number>() : found.operations;
      return lacking(has, [...codes, DESCRIBE], `topic ${topic}`);
    }),
    ...groups.flatMap(({ group, error, operations }) =>
      lacking(error === GROUP_NOT_ALLOWED ? new Set() : operations, [READ, DESCRIBE], `group ${group}`),
    ),
  ];
  const unknown = groups.filter(({ error, operations }) => error === 0 && operations === undefined);
  if (faults.length === 0 && unknown.length > 0) {
    return skipped(`the coordinator of ${unknown.map(({ group }) => group).join(", ")} does not answer`);
  }
  if (faults.length === 0) return ok("the client may write and read the topics and use its groups");
  return failed(`missing rights:\n${faults.join("\n")}`, "Grant them in Kafka's ACLs, see docs/events.md.");
}

/** Unknown rights are not missing. */
function lacking(has: ReadonlySet<number> | undefined, codes: readonly number[], resource: string): string[] {
  const missing = codes.filter((code) => has !== undefined && !has.has(code)).map((code) => NAMES.get(code));
  return missing.length === 0 ? [] : [`${missing.join(", ")} on ${resource}`];
}
