import { createHash } from "node:crypto";

/*
 * An endpoint gets the events of its platform's own connection and of the customers' connections. Each
 * connection has a lane at the endpoint, and the deliveries of a lane keep the order of their events. The
 * lane is the upper half of `aggregate_seq`, whose index thus finds the first delivery of every lane. The
 * own connection has lane 0. Customers have negative lanes, so no number of own events reaches theirs.
 */

const LANE_BITS = 32;
const LANE_SIZE = 2 ** LANE_BITS;
/** Bits of a customer's lane, so that its numbers remain exact in JavaScript. */
const CUSTOMER_BITS = 20;

/**
 * Returns the number of an event of a customer's connection among the deliveries of the endpoint. Two
 * customers may share a lane. Each still gets its events in order.
 */
export function placeInLane(connectionId: string, aggregateSeq: number): number {
  const hash = createHash("sha256").update(connectionId).digest().readUInt32BE(0);
  return aggregateSeq - (1 + (hash >>> (LANE_BITS - CUSTOMER_BITS))) * LANE_SIZE;
}

/** Returns SQL for the lane of a delivery, from SQL for its `aggregate_seq`. */
export function laneOf(aggregateSeq: string): string {
  return `(${aggregateSeq} >> ${LANE_BITS})`;
}

/** Returns SQL for the lowest `aggregate_seq` of a lane. */
export function startOfLane(lane: string): string {
  return `((${lane}) << ${LANE_BITS})`;
}
