import Broker from "kafkajs/src/broker/index.js";
import ConnectionPool from "kafkajs/src/network/connectionPool.js";
import createSocketFactory from "kafkajs/src/network/socketFactory.js";
import Decoder from "kafkajs/src/protocol/decoder.js";
import Encoder from "kafkajs/src/protocol/encoder.js";
import type { KafkaSettings } from "../../input/event_settings.ts";
import { calmRequestQueues } from "./client.ts";
import { clientConfig } from "./settings.ts";

/** A broker as the cluster advertises it to clients. */
export type AdvertisedBroker = { id: number; host: string; port: number };

/** `operations` are the rights of this client, as codes of Kafka's `AclOperation`; `undefined` if unknown. */
export type TopicFacts = {
  topic: string;
  error: number;
  partitions: { replicas: number; inSync: number; hasLeader: boolean }[];
  operations: ReadonlySet<number> | undefined;
};

export type ClusterFacts = { brokers: AdvertisedBroker[]; topics: TopicFacts[] };
export type GroupFacts = { group: string; error: number; operations: ReadonlySet<number> | undefined };

/** A connection to exactly one broker. Unlike the library's client, it never follows advertised addresses. */
export type KafkaProbe = {
  /** Connects and authenticates. Rejects with the library's error. */
  connect(): Promise<void>;
  describe(topics: readonly string[]): Promise<ClusterFacts>;
  /** Returns the broker that knows a group. Rejects with the library's error. */
  coordinatorOf(group: string): Promise<AdvertisedBroker>;
  /** Call it on the group's coordinator, because other brokers know nothing about the group. */
  describeGroup(group: string): Promise<GroupFacts>;
  /** Returns a topic's setting. Rejects without the right to describe settings. */
  topicSetting(topic: string, name: string): Promise<string | undefined>;
  close(): Promise<void>;
};

const silent = { namespace: () => silent, debug() {}, info() {}, warn() {}, error() {} };
const METADATA = 3;
const DESCRIBE_GROUPS = 15;
const TOPIC = 2;
/** The coordinator type of a consumer group. */
const GROUP = 0;

/** Creates a probe of the broker at `host:port`. Each of its steps takes at most `stepMs`. */
export function createKafkaProbe(
  settings: KafkaSettings,
  { host, port }: Pick<AdvertisedBroker, "host" | "port">,
  stepMs: number,
): KafkaProbe {
  calmRequestQueues();
  const times = { connectionTimeout: stepMs, requestTimeout: stepMs };
  const own = { host, port, logger: silent, socketFactory: createSocketFactory(), maxInFlightRequests: 1 };
  const connectionPool = new ConnectionPool({ ...clientConfig(settings), ...times, ...own });
  const broker = new Broker({ connectionPool, logger: silent });
  return {
    connect: () => broker.connect(),
    describe: (topics) => ask(broker, metadataRequest(topics), readMetadata),
    async coordinatorOf(groupId) {
      const { coordinator } = await broker.findGroupCoordinator({ groupId, coordinatorType: GROUP });
      return { id: coordinator.nodeId, host: coordinator.host, port: coordinator.port };
    },
    describeGroup: (group) => ask(broker, groupRequest(group), readGroup),
    async topicSetting(topic, name) {
      const resources = [{ type: TOPIC, name: topic, configNames: [name] }];
      const { resources: found } = await broker.describeConfigs({ resources });
      return found[0]?.configEntries.find(({ configName }) => configName === name)?.configValue;
    },
    close: () => broker.disconnect(),
  };
}

type Request = { apiKey: number; apiVersion: number; apiName: string; encode(): Promise<Encoder> };

/** Sends a request in a version that returns the client's rights. The library knows only earlier versions. */
function ask<T>(broker: Broker, request: Request, read: (decoder: Decoder) => T): Promise<T> {
  const decode = async (payload: Buffer) => read(new Decoder(payload));
  return broker.connectionPool.send({ request, response: { decode, parse: async (decoded) => decoded } });
}

/** Metadata request, version 8: topics, no creation, no rights on the cluster, rights on the topics. */
function metadataRequest(topics: readonly string[]): Request {
  const encode = async () =>
    new Encoder().writeArray(topics).writeBoolean(false).writeBoolean(false).writeBoolean(true);
  return { apiKey: METADATA, apiVersion: 8, apiName: "Metadata", encode };
}

function readMetadata(decoder: Decoder): ClusterFacts {
  decoder.readInt32(); // throttle time
  const brokers = decoder.readArray((each) => {
    const broker = { id: each.readInt32(), host: each.readString() ?? "", port: each.readInt32() };
    each.readString(); // rack
    return broker;
  });
  decoder.readString(); // cluster id
  decoder.readInt32(); // controller
  return { brokers, topics: decoder.readArray(readTopic) };
}

function readTopic(decoder: Decoder): TopicFacts {
  const [error, topic] = [decoder.readInt16(), decoder.readString() ?? ""];
  decoder.readBoolean(); // internal
  const partitions = decoder.readArray((each) => {
    each.readInt16(); // error
    each.readInt32(); // index
    const hasLeader = each.readInt32() >= 0;
    each.readInt32(); // leader epoch
    const [replicas, inSync] = [each.readArray(readNode).length, each.readArray(readNode).length];
    each.readArray(readNode); // offline replicas
    return { replicas, inSync, hasLeader };
  });
  return { topic, error, partitions, operations: operationsOf(decoder.readInt32()) };
}

function readNode(decoder: Decoder): number {
  return decoder.readInt32();
}

/** DescribeGroups request, version 3: groups, with the rights on them. */
function groupRequest(group: string): Request {
  const encode = async () => new Encoder().writeArray([group]).writeBoolean(true);
  return { apiKey: DESCRIBE_GROUPS, apiVersion: 3, apiName: "DescribeGroups", encode };
}

function readGroup(decoder: Decoder): GroupFacts {
  decoder.readInt32(); // throttle time
  const [group] = decoder.readArray((each) => {
    const [error, name] = [each.readInt16(), each.readString() ?? ""];
    for (let text = 0; text < 3; text += 1) each.readString(); // state, protocol type, protocol
    each.readArray((member) => {
      for (let text = 0; text < 3; text += 1) member.readString(); // id, client, host
      for (let bytes = 0; bytes < 2; bytes += 1) member.readBytes(); // metadata, assignment
    });
    return { group: name, error, operations: operationsOf(each.readInt32()) };
  });
  return group ?? { group: "", error: 0, operations: undefined };
}

const MOST_OPERATIONS = 31;

/** Kafka's value for rights that it did not look up, for example after an error. */
const UNKNOWN = -(2 ** 31);

function operationsOf(bits: number): ReadonlySet<number> | undefined {
  if (bits === UNKNOWN) return undefined;
  const codes = Array.from({ length: MOST_OPERATIONS }, (_, code) => code);
  return new Set(codes.filter((code) => (bits & (1 << code)) !== 0));
}
