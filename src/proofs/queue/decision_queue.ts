import { Counter, Gauge } from "prom-client";
import type { Metrics } from "../../metrics.ts";
import { createFairQueue, type FairQueue, type FairQueueBounds, type QueueRefusal } from "./fair_queue.ts";

/**
 * 64 are one batch of decisions; more at a time did not raise the rate when it was measured. A caller hears
 * after a second that there are too many, among thousands of them a little later.
 */
const BOUNDS: FairQueueBounds = {
  places: 64,
  share: { least: 4, most: 8 },
  waitMs: 1_000,
  most: 4_096,
  longMs: 500,
};

const REFUSALS: readonly QueueRefusal[] = ["late", "full"];

/** Where this process's decisions wait for each other, with its metrics. */
export function createDecisionQueue({ registry }: Pick<Metrics, "registry">): FairQueue {
  const registers = [registry];
  const refused = new Counter({
    name: "deputize_decisions_refused_total",
    help: "Calls for a decision that were refused: they waited for too long (late), or too many waited (full)",
    labelNames: ["cause"],
    registers,
  });
  for (const cause of REFUSALS) refused.inc({ cause }, 0);
  const queue = createFairQueue(BOUNDS, (cause) => refused.inc({ cause }));
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read());
      },
    });
  gauge("deputize_decisions_running", "Decisions that this process works on", () => queue.running);
  gauge("deputize_decisions_waiting", "Calls for a decision that wait to be worked on", () => queue.waiting);
  return queue;
}
