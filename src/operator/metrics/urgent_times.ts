import { type AnyObject, type Key, keyText } from "../kinds.ts";
import { type Urgency, urgencyOf } from "../urgency.ts";

/** Measures how long people wait. */
export type UrgentTimes = {
  /** An object as it is now; `undefined`: it is gone. */
  sees(key: Key, object: AnyObject | undefined): void;
  /** Forgets what has begun. */
  stops(): void;
};

/** Tells how many seconds passed from when something urgent was first seen until it was done. */
export function createUrgentTimes(observe: (urgency: Urgency, seconds: number) => void): UrgentTimes {
  const begun = new Map<string, { urgency: Urgency; at: number }>();
  return {
    sees(key, object) {
      if (key.kind !== "Delegation") return;
      const id = keyText(key);
      const urgency = object?.kind === "Delegation" ? urgencyOf(object) : undefined;
      const before = begun.get(id);
      if (before?.urgency === urgency) return;
      begun.delete(id);
      if (urgency !== undefined) {
        begun.set(id, { urgency, at: performance.now() });
      } else if (before !== undefined) {
        observe(before.urgency, (performance.now() - before.at) / 1000);
      }
    },
    stops: () => begun.clear(),
  };
}
