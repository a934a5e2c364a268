import type { Bus, Consumer } from "./bus.ts";
import { type ConsumeDeps, consume } from "./consume.ts";

/**
 * The bus inside one process: `publish` has every consumer handle the events and resolves after their
 * commits, so events that were not consumed stay in the outbox.
 */
export function createLocalBus(deps: ConsumeDeps): Bus {
  const consumers: Consumer[] = [];
  const running = new Set<Promise<void>>();
  let closed = false;

  async function track(work: Promise<void>): Promise<void> {
    running.add(work);
    try {
      await work;
    } finally {
      running.delete(work);
    }
  }

  return {
    async publish(events) {
      if (closed) throw new Error("The bus is closed");
      const consumed = consumers.map((consumer) => consume(deps, consumer, events));
      await track(Promise.all(consumed).then(() => {}));
    },
    async subscribe(consumer) {
      consumers.push(consumer);
    },
    async health() {
      return closed ? { ok: false, detail: "closed" } : { ok: true };
    },
    async close() {
      closed = true;
      await Promise.allSettled(running);
    },
  };
}
