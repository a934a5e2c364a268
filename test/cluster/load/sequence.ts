import { readLines } from "../../soak/lines.ts";

/** `compared` counts the shops. */
export type Sequence = { compared: number; problems: string[] };

/**
 * Compares the order in which a shop's events arrived with the order of the decisions. Considers only shops
 * whose deliveries all succeeded at the first attempt, because a retried event arrives later.
 */
export function checkSequence(folder: string): Sequence {
  const deliveries = Map.groupBy(readLines(folder, "deliveries"), ({ connectionId }) => connectionId);
  const decided = Map.groupBy(readLines(folder, "appended"), ({ of }) => of);
  const received = Map.groupBy(readLines(folder, "received"), ({ connectionId }) => connectionId);
  const calm = [...deliveries].filter(
    ([, all]) => all.length > 1 && all.every(({ attempts }) => attempts === 1),
  );
  const problems = calm.flatMap(([connectionId]) => {
    const wanted = (decided.get(connectionId) ?? []).map(({ id }) => id);
    const got = (received.get(connectionId) ?? []).map(({ id }) => id);
    const longer = wanted.length > got.length ? wanted : got;
    const at = longer.findIndex((_, n) => wanted[n] !== got[n]);
    if (at === -1) return [];
    return [`${connectionId} got ${got[at]} as number ${at + 1}, decided was ${wanted[at]}`];
  });
  return { compared: calm.length, problems };
}
