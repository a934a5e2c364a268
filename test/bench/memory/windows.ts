import type { Agent } from "./agents.ts";

/** A client's orders: as many lanes take proofs and show them, until so many seconds are over. */
export type Orders = { port: number; lanes: number; seconds: number; agents: Agent[] };

/** What was waited for, in milliseconds, in one window of time. */
export type Window = { presents: number[]; decisions: number[] };

/** How long a window is. */
export const WINDOW_SECONDS = 10;
