import type { Agent } from "./agents.ts";

/** Orders for a client: the number of lanes that request and present proofs, and the duration in seconds. */
export type Orders = { port: number; lanes: number; seconds: number; agents: Agent[] };

/** Wait times in one time window, in milliseconds. */
export type Window = { presents: number[]; decisions: number[] };

/** Length of a time window in seconds. */
export const WINDOW_SECONDS = 10;
