import type { Database } from "../../db/database.ts";
import { counted, countedDeliveries, DELIVERIES_UP_TO, rowOf, UP_TO } from "./counting.ts";
import type { MeasuredState } from "./measurements.ts";

/** Deliveries that are not over, and endpoints that get nothing. */
export function deliveryStates(database: Database): MeasuredState[] {
  return [deliveries(database), endpoints(database)];
}

const UNFINISHED = ["pending", "sending", "held"] as const;

/* Written out by state, so that each count reads the index of its own. */
const DELIVERIES = `select ${UNFINISHED.map((state) => `${countedDeliveries(state)} as ${state}`).join(
  ", ",
)}`;

function deliveries(database: Database): MeasuredState {
  return {
    name: "deliveries",
    gauges: {
      deputize_webhook_deliveries: {
        help: `Deliveries that are not over by state: pending, sending or held, ${DELIVERIES_UP_TO}`,
        labelNames: ["state"],
      },
    },
    async read() {
      const counts = await rowOf<Record<(typeof UNFINISHED)[number], number>>(database, DELIVERIES);
      return {
        deputize_webhook_deliveries: UNFINISHED.map((state) => ({ labels: { state }, value: counts[state] })),
      };
    },
  };
}

const SILENT = ["suspended", "paused"] as const;

/* The condition on its own is that of the index. */
const ENDPOINTS = `select ${SILENT.map(
  (state) => `${counted(`webhook_endpoints where state <> 'active' and state = '${state}'`)} as ${state}`,
).join(", ")}`;

function endpoints(database: Database): MeasuredState {
  return {
    name: "endpoints",
    gauges: {
      deputize_webhook_endpoints: {
        help: `Endpoints that get nothing by state: suspended, or paused by their owner, ${UP_TO}`,
        labelNames: ["state"],
      },
    },
    async read() {
      const counts = await rowOf<Record<(typeof SILENT)[number], number>>(database, ENDPOINTS);
      return {
        deputize_webhook_endpoints: SILENT.map((state) => ({ labels: { state }, value: counts[state] })),
      };
    },
  };
}
