import kafkajs, { type Admin } from "kafkajs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { kafkaChecks } from "../../src/doctor/kafka.ts";
import { createKafkaClient } from "../../src/events/kafka/client.ts";
import { ensureTopics } from "../../src/events/kafka/topics.ts";
import type { KafkaSettings } from "../../src/input/event_settings.ts";
import { SILENT } from "../events/kafka/kafka_world.ts";
import { kafkaForTests, type TestKafka } from "../support/kafka.ts";
import { rowsOf } from "./support.ts";

const START_MS = 10 * 60_000;
const PASSWORD = "correct horse battery";
const SASL = {
  protocol: "SASL_PLAINTEXT",
  settings: {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    // Includes ANONYMOUS, because the nodes of this test connect to each other without authentication.
    "super.users": "User:admin;User:ANONYMOUS",
    "listener.name.people.sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.people.scram-sha-512.sasl.jaas.config":
      "org.apache.kafka.common.security.scram.ScramLoginModule required;",
  },
  scram: ["admin", "worker"].map(
    (name) => ({ mechanism: "SCRAM-SHA-512", name, password: PASSWORD }) as const,
  ),
} as const;
const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes } = kafkajs;
const { missing, start } = await kafkaForTests({ needsOwn: true });
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

describe.skipIf(missing !== undefined)("the checks of Kafka", { timeout: 60_000 }, () => {
  let kafka: TestKafka;
  let admin: Admin;

  beforeAll(async () => {
    kafka = await start({ ...SASL, scram: [...SASL.scram] });
    const settings = settingsOf("admin");
    await ensureTopics(createKafkaClient(settings, SILENT), settings);
    admin = createKafkaClient(settings, SILENT).admin();
    await admin.connect();
  }, START_MS);
  afterAll(async () => {
    await admin?.disconnect();
    await kafka?.stop();
  });

  const settingsOf = (username: string): KafkaSettings => ({
    brokers: kafka.brokers,
    prefix: "",
    partitions: 2,
    replication: 1,
    sasl: { mechanism: "scram-sha-512", username, password: PASSWORD },
  });
  const environment = (change: Record<string, string> = {}) => ({
    EVENTS: "kafka",
    KAFKA_BROKERS: kafka.brokers.join(","),
    KAFKA_PARTITIONS: "2",
    KAFKA_REPLICATION: "1",
    KAFKA_SASL_MECHANISM: "SCRAM-SHA-512",
    KAFKA_USERNAME: "admin",
    KAFKA_PASSWORD: PASSWORD,
    ...change,
  });
  const look = (change?: Record<string, string>) =>
    rowsOf(kafkaChecks({ createsTopics: true, usesTopics: true }), environment(change), {
      roles: ["worker", "migrate"],
    });

  const grant = (
    resourceType: kafkajs.AclResourceTypes,
    resourceName: string,
    operation: kafkajs.AclOperationTypes,
  ) =>
    admin.createAcls({
      acl: [
        {
          principal: "User:worker",
          host: "*",
          permissionType: AclPermissionTypes.ALLOW,
          operation,
          resourceType,
          resourceName,
          resourcePatternType: ResourcePatternTypes.LITERAL,
        },
      ],
    });

  test("pass for a user with all rights", async () => {
    const rows = await look();
    expect(Object.entries(rows).map(([name, { status }]) => `${name}: ${status}`)).toEqual([
      "kafka brokers: ok",
      "kafka listeners: ok",
      "kafka topics: ok",
      "kafka rights: ok",
    ]);
  });

  test("name each missing right, and pass once the documented rights are granted", async () => {
    const worker = { KAFKA_USERNAME: "worker" };
    const { TOPIC, GROUP } = AclResourceTypes;
    const { READ, WRITE } = AclOperationTypes;
    const none = await look(worker);
    expect(none["kafka topics"]?.detail).toContain("deputize.audit.v1 may not be described");
    expect(none["kafka rights"]?.detail.split("\n").slice(1)).toEqual([
      "Read, Write, Describe on topic deputize.lifecycle.v1",
      "Write, Describe on topic deputize.audit.v1",
      "Write, Describe on topic deputize.dlq.v1",
      "Read, Describe on group deputize.webhooks",
      "Read, Describe on group deputize.notices",
    ]);
    for (const topic of ["lifecycle", "audit", "dlq"]) await grant(TOPIC, `deputize.${topic}.v1`, WRITE);
    await grant(GROUP, "deputize.notices", READ);
    const some = await look(worker);
    expect(some["kafka rights"]?.detail.split("\n").slice(1)).toEqual([
      "Read on topic deputize.lifecycle.v1",
      "Read, Describe on group deputize.webhooks",
    ]);
    await grant(TOPIC, "deputize.lifecycle.v1", READ);
    await grant(GROUP, "deputize.webhooks", READ);
    const all = await look(worker);
    expect(all["kafka rights"]).toMatchObject({ status: "ok" });
    expect(all["kafka topics"]).toMatchObject({ status: "ok" });
  });

  test("name missing topics, and topics of another form", async () => {
    const foreign = await look({ KAFKA_PREFIX: "other." });
    expect(foreign["kafka topics"]).toMatchObject({
      status: "failed",
      detail: expect.stringContaining("other.deputize.lifecycle.v1 is missing"),
    });
    const different = await look({ KAFKA_PARTITIONS: "7", KAFKA_REPLICATION: "3" });
    expect(different["kafka topics"]?.detail.split("\n")).toEqual(
      expect.arrayContaining([
        "deputize.audit.v1 has 2 partitions, not 7",
        "deputize.audit.v1 has 1 replicas, not 3",
      ]),
    );
  });

  test("name a topic that accepts no events", async () => {
    const resource = { type: kafkajs.ConfigResourceTypes.TOPIC, name: "deputize.audit.v1" };
    const set = (value: string) =>
      admin.alterConfigs({
        validateOnly: false,
        resources: [{ ...resource, configEntries: [{ name: "min.insync.replicas", value }] }],
      });
    await set("2");
    try {
      const rows = await look();
      expect(rows["kafka topics"]?.detail).toBe(
        "deputize.audit.v1 has 1 replicas in sync and needs 2 to accept events",
      );
    } finally {
      await set("1");
    }
  });

  test("name a refused password, but do not show it", async () => {
    const rows = await look({ KAFKA_PASSWORD: "wr0ng" });
    expect(rows["kafka brokers"]).toMatchObject({
      status: "failed",
      detail: expect.stringContaining("check KAFKA_USERNAME, KAFKA_PASSWORD and KAFKA_SASL_MECHANISM"),
    });
    expect(rows["kafka topics"]).toMatchObject({ status: "skipped", detail: "no broker answers" });
    expect(JSON.stringify(rows)).not.toContain("wr0ng");
  });

  test("name a broker that does not answer, although another does", async () => {
    const rows = await look({ KAFKA_BROKERS: `127.0.0.1:1,${kafka.brokers.join()}` });
    expect(rows["kafka brokers"]).toMatchObject({
      status: "failed",
      detail: expect.stringMatching(/^1 of 2 brokers of KAFKA_BROKERS answer; 127\.0\.0\.1:1: /),
    });
    expect(rows["kafka topics"]?.status).toBe("ok");
  });
});

describe.skipIf(missing !== undefined)(
  "a broker that advertises a closed address",
  { timeout: 60_000 },
  () => {
    let kafka: TestKafka;
    beforeAll(async () => {
      // The name is that of this machine for the node itself, but nothing listens at its first port.
      kafka = await start({
        settings: { "advertised.listeners": "PEOPLE://127.0.0.1:1,BROKERS://127.0.0.1:2" },
      });
    }, START_MS);
    afterAll(() => kafka?.stop());

    test("fails the check of the listeners, while the bootstrap address answers", async () => {
      const settings = { EVENTS: "kafka", KAFKA_BROKERS: kafka.brokers.join() };
      const rows = await rowsOf(kafkaChecks({ createsTopics: false, usesTopics: true }), settings, {
        roles: ["worker"],
      });
      expect(rows["kafka brokers"]?.status).toBe("ok");
      expect(rows["kafka listeners"]).toMatchObject({
        status: "failed",
        detail:
          "Kafka advertises listeners that cannot be reached from here:\n" +
          "broker 1 at 127.0.0.1:1: the connection is refused: nothing listens there",
      });
    });

    test("appears in the error of a process that creates topics", async () => {
      const settings = { brokers: kafka.brokers, prefix: "", partitions: 1, replication: 1 };
      await expect(ensureTopics(createKafkaClient(settings, SILENT), settings)).rejects.toThrow(
        "Kafka advertises the broker 127.0.0.1:1, which cannot be reached from here",
      );
    });
  },
);
