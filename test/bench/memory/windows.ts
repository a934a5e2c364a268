import type { Agent } from "./agents.ts";

/** Orders for a client: the number of lanes that request and present proofs, and for how many seconds. */
export type Orders = { port: number; lanes: number; seconds: number; agents: Agent[] };

/** Waits in one window of time, in milliseconds. */
export type Window = { presents: number[]; decisions: number[] };

/** Length of a window in seconds. */
export const WINDOW_SECONDS = 10;
