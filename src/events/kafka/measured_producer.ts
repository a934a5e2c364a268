import type { Clock } from "../../clock.ts";
import type { EventMetrics } from "../metrics/event_metrics.ts";
import type { KafkaProducer } from "./producer.ts";

type Measuring = { clock: Clock; measure?: Pick<EventMetrics, "produced"> | undefined };

/** The producer, with `measure` told of each topic that records were sent to: how that ended, and when. */
export function measuredProducer(producer: KafkaProducer, { clock, measure }: Measuring): KafkaProducer {
  return {
    ...producer,
    async send(records) {
      const startedAt = clock.now().getTime();
      const tell = (result: "written" | "failed") => {
        const seconds = Math.max(0, (clock.now().getTime() - startedAt) / 1000);
        for (const topic of new Set(records.map((record) => record.topic))) {
          measure?.produced(topic, result, seconds);
        }
      };
      try {
        await producer.send(records);
      } catch (error) {
        tell("failed");
        throw error;
      }
      tell("written");
    },
  };
}
