import kafkajs from "kafkajs";
import { describe, expect, test } from "vitest";
import { StartError } from "../../../src/config.ts";
import { explained } from "../../../src/events/kafka/client.ts";

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
