import kafkajs from "kafkajs";
import { describe, expect, test } from "vitest";
import { StartError } from "../../../src/config.ts";
import { explained } from "../../../src/events/kafka/client.ts";
import { explainFailure } from "../../../src/events/kafka/explain_failure.ts";
import type { KafkaSettings } from "../../../src/input/event_settings.ts";

const settings = { sasl: undefined, brokers: ["kafka.test:9092", "kafka.test:9093"] };
function errorOf(broker: string, code?: string): Error {
  const metadata = { broker, ...(code !== undefined && { code }) };
  return new Error("retried", { cause: new kafkajs.KafkaJSConnectionError("failed", metadata) });
}

describe("the explanation of a failed connection to Kafka", () => {
  test.each(["ECONNREFUSED", "ENOTFOUND", undefined])(
    "names the advertised listener that a broker of the settings has named: %s",
    (code) => {
      const error = explained(errorOf("10.0.0.9:9094", code), settings);
      expect(error.message).toMatch(/^Kafka advertises the broker 10\.0\.0\.9:9094, which cannot be reached/);
      expect(error.message).not.toContain("kafka.test");
      expect(error).not.toBeInstanceOf(StartError);
    },
  );

  test("names the settings if a broker of the settings does not answer", () => {
    const { message } = explained(errorOf("kafka.test:9093", "ECONNREFUSED"), settings);
    expect(message).toBe("No broker of KAFKA_BROKERS answers: kafka.test:9092, kafka.test:9093");
  });

  test("blames advertised.listeners, not KAFKA_BROKERS, for a listener's wrong certificate", () => {
    const error = explained(errorOf("10.0.0.9:9094", "ERR_TLS_CERT_ALTNAME_INVALID"), settings);
    expect(error).toBeInstanceOf(StartError);
    expect(error.message).toContain("10.0.0.9:9094");
    expect(error.message).toContain("correct advertised.listeners");
    expect(error.message).not.toContain("KAFKA_BROKERS");
  });
});

describe("the explanation of a broker that cannot be reached", () => {
  const LISTENER = "10.0.0.9:9094";
  const kafka: KafkaSettings = { ...settings, sasl: undefined, prefix: "", partitions: 1, replication: 1 };
  const down = errorOf(LISTENER, "ECONNREFUSED");

  test("blames advertised.listeners while Kafka advertises the address", async () => {
    const { message } = await explainFailure(down, kafka, async () => new Set([LISTENER, "10.0.0.8:9094"]));
    expect(message).toContain("correct advertised.listeners");
  });

  test("says that the broker has stopped once Kafka no longer advertises it", async () => {
    const { message } = await explainFailure(down, kafka, async () => new Set(["10.0.0.8:9094"]));
    expect(message).toBe(
      `The broker ${LISTENER} does not answer, and Kafka no longer advertises it: it has stopped`,
    );
  });

  test("names the settings if their brokers do not answer either", async () => {
    // Nothing can listen at port 0.
    const away = { ...kafka, brokers: ["127.0.0.1:0", "127.0.0.1:0"] };
    const { message } = await explainFailure(down, away);
    expect(message).toBe("No broker of KAFKA_BROKERS answers: 127.0.0.1:0, 127.0.0.1:0");
    expect(message).not.toContain("advertised.listeners");
  });

  test("asks no broker about other errors", async () => {
    const never = () => Promise.reject(new Error("was asked"));
    for (const error of [
      errorOf("kafka.test:9093", "ECONNREFUSED"),
      errorOf(LISTENER, "CERT_HAS_EXPIRED"),
      new Error("other"),
    ]) {
      expect((await explainFailure(error, kafka, never)).message).toBe(explained(error, kafka).message);
    }
  });
});
