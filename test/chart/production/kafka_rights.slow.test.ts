import kafkajs, { type AclEntry } from "kafkajs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createKafkaClient } from "../../../src/events/kafka/client.ts";
import { topics } from "../../../src/events/kafka/settings.ts";
import { ensureTopics } from "../../../src/events/kafka/topics.ts";
import type { KafkaSettings } from "../../../src/input/event_settings.ts";
import { busEvent, keeping, labelOf } from "../../events/describe_bus.ts";
import { type KafkaWorld, kafkaWorld, SILENT } from "../../events/kafka/kafka_world.ts";
import { useDatabase } from "../../events/support/database.ts";
import { kafkaForTests, type TestKafka } from "../../support/kafka.ts";
import { until } from "../../support/process.ts";
import { ofKind, theOnly } from "./files.ts";

const START_MS = 10 * 60_000;
const PASSWORD = "correct horse battery";
const ADMIN = "admin";
const { missing, start } = await kafkaForTests({ needsOwn: true });
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

type Acl = { resource: { type: "topic" | "group"; name: string }; operations: string[] };
const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes } = kafkajs;
const OPERATIONS: Record<string, number> = {
  Read: AclOperationTypes.READ,
  Write: AclOperationTypes.WRITE,
  DescribeConfigs: AclOperationTypes.DESCRIBE_CONFIGS,
};

const TIMEOUT_MS = 120_000;

describe.skipIf(missing !== undefined)(
  "Kafka with the topics and rights of the production example",
  { timeout: TIMEOUT_MS },
  () => {
    const home = useDatabase();
    const user = theOnly("KafkaUser");
    let kafka: TestKafka;
    let world: KafkaWorld | undefined;

    const settingsOf = (username: string): KafkaSettings => ({
      brokers: kafka.brokers,
      prefix: "",
      partitions: 12,
      replication: 1,
      sasl: { mechanism: "scram-sha-512", username, password: PASSWORD },
    });
    const own = () => settingsOf(user.metadata.name);

    beforeAll(async () => {
      const login = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
      kafka = await start({
        protocol: "SASL_PLAINTEXT",
        scram: [ADMIN, user.metadata.name].map((name) => ({
          mechanism: "SCRAM-SHA-512",
          name,
          password: PASSWORD,
        })),
        settings: {
          "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
          // Includes ANONYMOUS, because the nodes of this test connect to each other without authentication.
          "super.users": `User:${ADMIN};User:ANONYMOUS`,
          "listener.name.people.sasl.enabled.mechanisms": "SCRAM-SHA-512",
          "listener.name.people.scram-sha-512.sasl.jaas.config": login,
        },
      });
      const admin = createKafkaClient(settingsOf(ADMIN), SILENT).admin();
      await admin.connect();
      await admin.createTopics({
        waitForLeaders: true,
        topics: ofKind("KafkaTopic").map(({ metadata, spec }) => ({
          topic: metadata.name,
          numPartitions: spec.partitions,
          replicationFactor: 1,
          configEntries: [{ name: "retention.ms", value: String(spec.config["retention.ms"]) }],
        })),
      });
      await admin.createAcls({ acl: (user.spec.authorization.acls as Acl[]).flatMap(entriesOf) });
      await admin.disconnect();
    }, START_MS);
    afterAll(async () => {
      await world?.dispose();
      await kafka?.stop();
    });

    const entriesOf = ({ resource, operations }: Acl): AclEntry[] =>
      operations.map((operation) => ({
        principal: `User:${user.metadata.name}`,
        host: "*",
        permissionType: AclPermissionTypes.ALLOW,
        operation: OPERATIONS[operation] ?? AclOperationTypes.UNKNOWN,
        resourceType: resource.type === "topic" ? AclResourceTypes.TOPIC : AclResourceTypes.GROUP,
        resourceName: resource.name,
        resourcePatternType: ResourcePatternTypes.LITERAL,
      }));

    test("leaves `deputize migrate` nothing to create or correct", async () => {
      expect(await ensureTopics(createKafkaClient(own(), SILENT), own())).toEqual({
        made: [],
        differing: [],
      });
    });

    test("lets a worker write events, read them in its consumer groups, and set aside unreadable ones", async () => {
      world = await kafkaWorld(home, kafka.brokers, own());
      const bus = world.join();
      const readers = ["webhooks", "notices"].map((name) => {
        const { consumer, handled } = keeping((event) => {
          if (labelOf(event) === "poison" && name === "webhooks") throw new TypeError("cannot read it");
        });
        return { handled, consumer: { ...consumer, name } };
      });
      for (const { consumer } of readers) await bus.subscribe(consumer);
      await bus.publish(["one", "poison"].map((label) => busEvent(label)));
      const counts = () => readers.map(({ handled }) => handled.length);
      await until("the events are handled", () => counts().join() === "1,2", 60_000);
      await until(
        "it is carried to the topic of what was put aside",
        async () => {
          const rows = await home.database("dead_letters").whereNotNull("carried_at");
          return rows.length === 1;
        },
        60_000,
      );
      expect(world.fatal).toEqual([]);
    });

    test("lets a worker write to the three topics and to no others", async () => {
      const producer = createKafkaClient(own(), SILENT).producer({ retry: { retries: 0 } });
      await producer.connect();
      const send = (topic: string) => producer.send({ topic, messages: [{ key: "k", value: "v" }] });
      for (const topic of [topics.audit, topics.deadLetters]) await send(topic);
      await expect(send("another")).rejects.toThrow();
      await producer.disconnect();
    });

    test("lets a worker use no other consumer group and create no topic", async () => {
      const admin = createKafkaClient(own(), SILENT).admin({ retry: { retries: 0 } });
      await admin.connect();
      const offsets = (groupId: string) => admin.fetchOffsets({ groupId, topics: [topics.lifecycle] });
      expect(await offsets("deputize.notices")).toHaveLength(1);
      await expect(offsets("deputize.others")).rejects.toThrow();
      const made = admin.createTopics({ topics: [{ topic: "another", numPartitions: 1 }] });
      await expect(made).rejects.toThrow();
      await admin.disconnect();
    });
  },
);
