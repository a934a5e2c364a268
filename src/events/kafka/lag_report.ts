import type { Database } from "../../db/database.ts";
import { readReport, writeReport } from "../../db/reports.ts";
import type { Sample } from "../metrics/measurements.ts";
import type { LagState } from "./lag_state.ts";

const SUBJECT = "kafka_lag";

type LagReport = Record<string, readonly Sample[]>;

/**
 * The same state; whatever it reads is kept in the database, for the API, which does not reach Kafka. What
 * cannot be kept is not: the database's trouble is no news of Kafka.
 */
export function reported(lag: LagState, database: Database): LagState {
  return {
    ...lag,
    async read(now) {
      const samples = await lag.read(now);
      await writeReport(database, SUBJECT, { at: now, content: samples }).catch(() => undefined);
      return samples;
    },
  };
}

/** What a worker read of Kafka last; undefined when none ever did. */
export const readLagReport = (database: Database) => readReport<LagReport>(database, SUBJECT);
