import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createAuthority, type Identity, issueCertificate } from "../../../keyvault/tls/authority.ts";
import { StartError } from "../../../src/config.ts";
import { createKafkaClient } from "../../../src/events/kafka/client.ts";
import { ensureTopics } from "../../../src/events/kafka/topics.ts";
import type { KafkaSettings, SaslMechanism } from "../../../src/input/event_settings.ts";
import { kafkaForTests, type TestKafka } from "../../support/kafka.ts";
import { tlsSettings } from "../../support/kafka_tls.ts";
import { until } from "../../support/process.ts";
import { busEvent, keeping } from "../describe_bus.ts";
import { useDatabase } from "../support/database.ts";
import { kafkaWorld, SILENT } from "./kafka_world.ts";

const START_MS = 10 * 60_000;
const DAY_MS = 24 * 60 * 60 * 1000;
const PASSWORD = "correct horse battery";
const { missing, start } = await kafkaForTests({ needsOwn: true });
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

const valid = { notBefore: new Date(Date.now() - DAY_MS), notAfter: new Date(Date.now() + DAY_MS) };
const ended = { notBefore: new Date(Date.now() - 2 * DAY_MS), notAfter: new Date(Date.now() - DAY_MS) };

describe.skipIf(missing !== undefined)("the Kafka client with TLS", { timeout: 90_000 }, () => {
  const home = useDatabase();
  let authority: Identity;
  let other: Identity;
  const started: TestKafka[] = [];

  beforeAll(async () => {
    [authority, other] = await Promise.all([createAuthority(valid), createAuthority(valid)]);
  }, START_MS);
  afterAll(() => Promise.all(started.map((kafka) => kafka.stop())));

  const serverOf = (validity = valid) =>
    issueCertificate(authority, { kind: "server", names: ["127.0.0.1"] }, validity);
  const clientOf = (validity = valid, by = authority) =>
    issueCertificate(by, { kind: "client", role: "api", name: "worker" }, validity);
  async function broker(options: Parameters<typeof start>[0]): Promise<string[]> {
    const kafka = await start(options);
    started.push(kafka);
    return kafka.brokers;
  }

  async function refusal(brokers: string[], change: Partial<KafkaSettings>): Promise<Error> {
    const settings: KafkaSettings = { brokers, prefix: "refused.", partitions: 1, replication: 1, ...change };
    const client = createKafkaClient(settings, SILENT, { retry: { retries: 1 } });
    return ensureTopics(client, settings).then(
      () => new Error("nothing was refused"),
      (error: Error) => error,
    );
  }

  describe("with password authentication", () => {
    let brokers: string[];
    const tls = () => ({ ca: authority.certificate });
    const jaas = "org.apache.kafka.common.security";
    beforeAll(async () => {
      brokers = await broker({
        protocol: "SASL_SSL",
        scram: (["SCRAM-SHA-256", "SCRAM-SHA-512"] as const).map((mechanism) => ({
          mechanism,
          name: "worker",
          password: PASSWORD,
        })),
        settings: {
          ...tlsSettings(await serverOf(), authority, "none"),
          "listener.name.people.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
          "listener.name.people.plain.sasl.jaas.config": `${jaas}.plain.PlainLoginModule required user_worker="${PASSWORD}";`,
          "listener.name.people.scram-sha-256.sasl.jaas.config": `${jaas}.scram.ScramLoginModule required;`,
          "listener.name.people.scram-sha-512.sasl.jaas.config": `${jaas}.scram.ScramLoginModule required;`,
        },
      });
    }, START_MS);

    test.each<SaslMechanism>(["plain", "scram-sha-256", "scram-sha-512"])(
      "sends and receives events as a user who signs in with %s",
      async (mechanism) => {
        const sasl = { mechanism, username: "worker", password: PASSWORD };
        const world = await kafkaWorld(home, brokers, { tls: tls(), sasl });
        const { consumer, handled } = keeping();
        const bus = world.join();
        await bus.subscribe(consumer);
        await bus.publish([busEvent("one")]);
        await until("it is handled", async () => handled.length === 1);
        await world.dispose();
      },
    );

    test("names the settings to check after a wrong password, but never the password", async () => {
      const sasl = { mechanism: "scram-sha-512", username: "worker", password: "wrong-secret" } as const;
      const error = await refusal(brokers, { tls: tls(), sasl });
      expect(error).toBeInstanceOf(StartError);
      expect(error.message).toBe(
        'Kafka refuses "worker": check KAFKA_USERNAME, KAFKA_PASSWORD and KAFKA_SASL_MECHANISM',
      );
      expect(`${error.stack} ${JSON.stringify(error)}`).not.toContain("wrong-secret");
    });

    test("reports that KAFKA_CA did not issue the broker's certificate", async () => {
      const error = await refusal(brokers, { tls: { ca: other.certificate } });
      expect(error.message).toBe(
        "Kafka cannot be reached: KAFKA_CA is not the authority that issued the broker's certificate",
      );
      expect(error).toBeInstanceOf(StartError);
    });
  });

  test("reports that the broker's certificate has expired", async () => {
    const settings = tlsSettings(await serverOf(ended), authority, "none");
    const brokers = await broker({ protocol: "SSL", settings });
    const error = await refusal(brokers, { tls: { ca: authority.certificate } });
    expect(error.message).toBe("Kafka cannot be reached: the broker's certificate has expired: renew it");
  });

  test("can use a client certificate, and reports an invalid client certificate", async () => {
    const settings = tlsSettings(await serverOf(), authority, "required");
    const brokers = await broker({ protocol: "SSL", settings });
    const tlsOf = ({ certificate, privateKey }: Identity) => ({
      ca: authority.certificate,
      cert: certificate,
      key: privateKey,
    });
    const world = await kafkaWorld(home, brokers, { tls: tlsOf(await clientOf()) });
    await world.join().publish([busEvent("one")]);
    await world.dispose();
    const said = async (tls: KafkaSettings["tls"]) => (await refusal(brokers, { tls })).message;
    expect(await said({ ca: authority.certificate })).toContain("KAFKA_CERT");
    expect(await said(tlsOf(await clientOf(ended)))).toContain("KAFKA_CERT");
    expect(await said(tlsOf(await clientOf(valid, other)))).toContain("KAFKA_CERT");
  });

  test("names the settings to check if a broker is missing or has no TLS", async () => {
    expect((await refusal(["127.0.0.1:9"], {})).message).toBe(
      "No broker of KAFKA_BROKERS answers: 127.0.0.1:9",
    );
    const brokers = await broker({});
    const error = await refusal(brokers, { tls: { ca: authority.certificate } });
    expect(error.message).toContain("KAFKA_TLS");
  });
});
