import { addSeconds } from "../../clock.ts";
import type { Database } from "../../db/database.ts";
import { readLagReport } from "../../events/kafka/lag.ts";
import { MEASURE_SECONDS } from "../../events/measurements.ts";
import { readWorkers } from "../../events/shards.ts";
import { judge } from "../alerts.ts";
import { figureOf } from "../measured.ts";
import { type Figure, figure, type Part } from "../part.ts";

/** Readings that may fail before Kafka counts as away. */
const READINGS = 4;

/** The workers as the database knows them by their leases, and Kafka as they read it last. */
export function workersPart({ database }: { database: Database }): Part {
  return {
    name: "workers",
    async read(at) {
      const { living, aliveUntil, free } = await readWorkers(database);
      return [
        figure({ name: "workers", value: living, at, ...judge(living, "DeputizeWorkerAbsent") }),
        figure({ name: "workers_alive_until", value: aliveUntil?.toISOString() ?? null, unit: "time", at }),
        figure({ name: "outbox_shards_free", value: free, at, state: free > 0 ? "look" : "well" }),
        ...(await carrierFigures(database, at)),
      ];
    },
  };
}

/** The way that events take; how far Kafka's readers are, from the report of whichever worker read last. */
async function carrierFigures(database: Database, at: Date): Promise<Figure[]> {
  const row = await database("event_way").first("way");
  const way = row?.way ?? "embedded";
  const carrier = figure({ name: "event_way", value: way, unit: "text", at });
  if (way === "embedded") return [carrier];
  const report = await readLagReport(database);
  const isFresh = report !== undefined && at < addSeconds(report.at, READINGS * MEASURE_SECONDS);
  const up = isFresh ? 1 : 0;
  return [
    carrier,
    figure({
      name: "deputize_measurement_up",
      about: "kafka_lag",
      value: up,
      at: report?.at ?? at,
      ...judge(up, "DeputizeKafkaAway"),
    }),
    ...(report === undefined ? [] : lagFigures(report)),
  ];
}

/** How many records each group has still to read, over all partitions. */
function lagFigures({ at, content }: NonNullable<Awaited<ReturnType<typeof readLagReport>>>): Figure[] {
  return Object.entries(content).flatMap(([metric, samples]) =>
    [...Map.groupBy(samples, ({ labels }) => labels?.group ?? "")].map(([group, ofGroup]) =>
      figureOf(metric, { value: ofGroup.reduce((sum, { value }) => sum + value, 0), labels: { group } }, at),
    ),
  );
}
