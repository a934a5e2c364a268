import { Counter, Gauge, Histogram } from "prom-client";
import type { Clock } from "../clock.ts";
import type { Metrics } from "../metrics.ts";
import type { BusEvent } from "./bus.ts";

/**
 * The result of an attempt to deliver a webhook. `failed`: the worker tries again. `rejected`: the receiver
 * does not want this delivery. `gone`: it wants no deliveries at all. `blocked`: the worker made no request.
 */
export type AttemptResult = "delivered" | "failed" | "rejected" | "gone" | "blocked";

/** The counters of a worker's own work. Labels never name single events or connections. */
export type EventMetrics = {
  relayed(result: "published" | "failed"): void;
  /** Counts events that a consumer has just committed. `duplicates` are events that it had handled before. */
  consumed(consumer: string, handled: readonly BusEvent[], duplicates: number): void;
  /** Counts an event that became a dead letter. */
  putAside(consumer: string): void;
  attempt(verdict: AttemptResult, seconds: number): void;
  /** Records the seconds until Kafka confirmed records, or until sending them failed. */
  produced(topic: string, result: "written" | "failed", seconds: number): void;
  /** Counts a pause of a Kafka reader because the database is unavailable. */
  paused(consumer: string): void;
  /** Registers a reader's `silentSeconds`, and returns a function that unregisters it. */
  watches(consumer: string, silentSeconds: () => number): () => void;
};

const CONSUME_BUCKETS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 900, 3600];
const PRODUCE_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const ATTEMPT_BUCKETS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15];

/** Adds a worker's own counters to the metrics of its process. Each process counts only its own work. */
export function createEventMetrics({
  registry,
  clock,
}: Pick<Metrics, "registry"> & { clock: Clock }): EventMetrics {
  const registers = [registry];
  const batches = new Counter({
    name: "deputize_relay_batches_total",
    help: "Batches of events that this process moved from the outbox to the bus",
    labelNames: ["result"],
    registers,
  });
  const consumed = new Counter({
    name: "deputize_consumer_events_total",
    help: "Events that this process gave to a consumer: handled, dropped as known (duplicate) or put_aside",
    labelNames: ["consumer", "outcome"],
    registers,
  });
  const latency = new Histogram({
    name: "deputize_consumer_latency_seconds",
    help: "Seconds from the change that an event reports to the commit of its handling, in this process",
    labelNames: ["consumer"],
    buckets: CONSUME_BUCKETS,
    registers,
  });
  const attempts = new Histogram({
    name: "deputize_webhook_attempt_seconds",
    help: "Seconds from the start of a webhook request of this process to its result",
    labelNames: ["outcome"],
    buckets: ATTEMPT_BUCKETS,
    registers,
  });
  for (const result of ["published", "failed"]) batches.inc({ result }, 0);
  return {
    relayed: (result) => batches.inc({ result }),
    consumed(consumer, handled, duplicates) {
      const now = clock.now().getTime();
      consumed.inc({ consumer, outcome: "handled" }, handled.length);
      consumed.inc({ consumer, outcome: "duplicate" }, duplicates);
      consumed.inc({ consumer, outcome: "put_aside" }, 0);
      for (const { createdAt } of handled) {
        latency.observe({ consumer }, Math.max(0, (now - createdAt.getTime()) / 1000));
      }
    },
    putAside: (consumer) => consumed.inc({ consumer, outcome: "put_aside" }),
    attempt: (outcome, seconds) => attempts.observe({ outcome }, seconds),
    ...createKafkaMetrics({ registry }),
  };
}

function createKafkaMetrics({ registry }: Pick<Metrics, "registry">) {
  const registers = [registry];
  const produced = new Histogram({
    name: "deputize_kafka_produce_seconds",
    help: "Seconds until Kafka confirmed records of this process, or the sending failed",
    labelNames: ["topic", "result"],
    buckets: PRODUCE_BUCKETS,
    registers,
  });
  const pauses = new Counter({
    name: "deputize_kafka_pauses_total",
    help: "Times that a reader of this process waited because the database was away",
    labelNames: ["consumer"],
    registers,
  });
  const watched = new Map<string, () => number>();
  const silence = new Gauge({
    name: "deputize_kafka_reader_silent_seconds",
    help: "Seconds since the last sign of life of a reader of this process",
    labelNames: ["consumer"],
    registers,
    collect() {
      this.reset();
      for (const [consumer, silentSeconds] of watched) this.set({ consumer }, silentSeconds());
    },
  });
  return {
    produced: (topic, result, seconds) => produced.observe({ topic, result }, seconds),
    paused: (consumer) => pauses.inc({ consumer }),
    watches(consumer, silentSeconds) {
      watched.set(consumer, silentSeconds);
      pauses.inc({ consumer }, 0);
      return () => {
        watched.delete(consumer);
        silence.reset();
      };
    },
  } satisfies Partial<EventMetrics>;
}
