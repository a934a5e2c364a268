import kafkajs, { type Kafka, type KafkaJSProtocolError } from "kafkajs";
import { describe, expect, test } from "vitest";
import { ensureTopics } from "../../../src/events/kafka/topics.ts";

const SETTINGS = { brokers: ["127.0.0.1:9"], prefix: "p.", partitions: 4, replication: 1 };

const protocolError = (type: string): KafkaJSProtocolError =>
  Object.assign(new kafkajs.KafkaJSProtocolError(type), { type });

/** Brokers without topics that answer questions about new topics with these errors, in turn. */
function brokers(errors: Error[]) {
  const asked: string[][] = [];
  const admin = {
    connect: async () => undefined,
    disconnect: async () => undefined,
    listTopics: async () => [],
    createTopics: async () => true,
    async fetchTopicMetadata({ topics }: { topics: string[] }) {
      asked.push(topics);
      const error = errors.shift();
      if (error !== undefined) throw error;
      return { topics: [] };
    },
  };
  return { asked, client: { admin: () => admin } as unknown as Kafka };
}

describe("ensureTopics", () => {
  test("waits until the brokers know the topics that it created", async () => {
    const unknown = protocolError("UNKNOWN_TOPIC_OR_PARTITION");
    const leaderless = new kafkajs.KafkaJSNumberOfRetriesExceeded(protocolError("LEADER_NOT_AVAILABLE"), {
      retryCount: 3,
      retryTime: 1,
    });
    const { asked, client } = brokers([unknown, leaderless, unknown]);
    const { made } = await ensureTopics(client, SETTINGS);
    expect(made.length).toBeGreaterThan(0);
    expect(asked).toEqual([made, made, made, made]);
  });

  test("rejects if a broker refuses to describe the topics", async () => {
    const { asked, client } = brokers([protocolError("TOPIC_AUTHORIZATION_FAILED")]);
    await expect(ensureTopics(client, SETTINGS)).rejects.toThrow();
    expect(asked).toHaveLength(1);
  });
});
