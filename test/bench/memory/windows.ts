import type { Agent } from "./agents.ts";

export type Orders = { port: number; lanes: number; seconds: number; agents: Agent[] };

/** Wait times in one time window, in milliseconds. */
export type Window = { presents: number[]; decisions: number[] };

export const WINDOW_SECONDS = 10;
