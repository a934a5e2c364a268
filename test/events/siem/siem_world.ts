import { randomUUID } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { createAuthority, issueCertificate } from "../../../keyvault/tls/authority.ts";
import { topics } from "../../../src/events/kafka/settings.ts";
import { createShardLeases } from "../../../src/events/shards.ts";
import { startWholeApi } from "../../http/walk/world.ts";
import type { Person, TestApi } from "../../support/api.ts";
import type { kafkaForTests, TestKafka } from "../../support/kafka.ts";
import { tlsSettings } from "../../support/kafka_tls.ts";
import { type KafkaWorld, kafkaWorld } from "../kafka/kafka_world.ts";

const EXAMPLES = new URL("../../../docs/examples/siem/", import.meta.url);
const START_MS = 20 * 60_000;

const DAY_MS = 24 * 60 * 60 * 1000;
const USER = { name: "siem", password: "correct horse battery" };
const SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required";

/** An API whose history a worker sends to the audit topic of a real Kafka with TLS and SCRAM. */
export type SiemWorld = {
  api: TestApi;
  brokers: string;
  auditTopic: string;
  /** A folder with the brokers' CA certificate. The test may add files. */
  folder: string;
  authorityFile: string;
  /** The sign-in settings for Kafka, in the form of Java programs. */
  jaas: string;
  /** A person's history as the API shows it, oldest first, each entry as JSON. */
  shownTo(person: Person): Promise<string[]>;
};

type Start = Awaited<ReturnType<typeof kafkaForTests>>["start"];

/** Creates the API, worker and Kafka for a test file. `start` starts Kafka. */
export function siemWorld(start: Start): SiemWorld {
  const world = {
    jaas: `${SCRAM} username="${USER.name}" password="${USER.password}";`,
    async shownTo({ client }) {
      const { body } = await client.get("/v1/service/audit/personal");
      return (body.events as object[]).map((entry) => JSON.stringify(entry)).reverse();
    },
  } as SiemWorld;
  let kafka: TestKafka;
  let bus: KafkaWorld;
  beforeAll(async () => {
    world.folder = await mkdtemp(join(tmpdir(), "deputize-siem-"));
    world.authorityFile = join(world.folder, "ca.pem");
    const secured = await startSecured(start);
    kafka = secured.kafka;
    await writeFile(world.authorityFile, secured.ca);
    world.api = await startWholeApi();
    bus = await kafkaWorld({ database: world.api.db }, kafka.brokers, {
      tls: { ca: secured.ca },
      sasl: { mechanism: "scram-sha-512", username: USER.name, password: USER.password },
    });
    world.brokers = kafka.brokers.join(",");
    world.auditTopic = `${bus.settings.prefix}${topics.audit}`;
    const workerId = randomUUID();
    await createShardLeases(world.api.db, workerId, 3600).renew();
    bus.join(workerId);
  }, START_MS);
  afterAll(async () => {
    await bus?.dispose();
    await world.api?.stop();
    await kafka?.stop();
    await rm(world.folder, { recursive: true, force: true });
  });
  return world;
}

async function startSecured(start: Start): Promise<{ kafka: TestKafka; ca: string }> {
  const valid = { notBefore: new Date(Date.now() - DAY_MS), notAfter: new Date(Date.now() + DAY_MS) };
  const authority = await createAuthority(valid);
  const server = await issueCertificate(authority, { kind: "server", names: ["127.0.0.1"] }, valid);
  const kafka = await start({
    protocol: "SASL_SSL",
    scram: [{ mechanism: "SCRAM-SHA-512", ...USER }],
    settings: {
      ...tlsSettings(server, authority, "none"),
      "listener.name.people.sasl.enabled.mechanisms": "SCRAM-SHA-512",
      "listener.name.people.scram-sha-512.sasl.jaas.config": `${SCRAM};`,
    },
  });
  return { kafka, ca: authority.certificate };
}

/** Reads a file of the example in the documentation. */
export function example(name: string): Promise<string> {
  return readFile(new URL(name, EXAMPLES), "utf8");
}

/** Replaces values of a properties file. Throws if it lacks one of these properties. */
export function withOwn(properties: string, own: Record<string, string>): string {
  return Object.entries(own).reduce((text, [name, value]) => {
    const line = new RegExp(`^${name.replaceAll(".", "\\.")}=.*$`, "m");
    if (!line.test(text)) throw new Error(`The example does not set ${name}`);
    return text.replace(line, () => `${name}=${value}`);
  }, properties);
}
