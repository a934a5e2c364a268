import { addSeconds, type Clock, within } from "../clock.ts";
import { isAway, outageReason } from "../db/errors.ts";
import type { Logger } from "../log.ts";
import { type Figure, type Part, type PartName, type PartState, worstOf } from "./part.ts";

/** How a part was when it was read; with `fault` it gave no answer, and there are no figures. */
export type PartReading = {
  part: PartName;
  state: PartState;
  at: Date;
  fault: string | null;
  figures: readonly Figure[];
};

/** The parts of an installation, to be read one by one. */
export type Installation = {
  /** How a part is, or was a moment ago. Never rejects, and answers within a bounded time. */
  read(part: PartName): Promise<PartReading>;
};

type InstallationDeps = {
  parts: readonly Part[];
  clock: Clock;
  log: Logger;
  /** Milliseconds until a part counts as away. Default 3,000. */
  waitMs?: number;
  /** Seconds for which a reading is given again. Default 5. */
  freshSeconds?: number;
};

const WAIT_MS = 3_000;
const FRESH_SECONDS = 5;

/**
 * Reads each part once at a time, however many people look: who asks meanwhile gets the same reading. One
 * that takes too long goes on without them, and until it ends no other is begun.
 */
export function createInstallation(deps: InstallationDeps): Installation {
  const { parts, clock, log, waitMs = WAIT_MS, freshSeconds = FRESH_SECONDS } = deps;
  const underWay = new Map<PartName, Promise<PartReading>>();
  const last = new Map<PartName, PartReading>();

  async function begin({ name, read }: Part): Promise<PartReading> {
    const at = clock.now();
    try {
      const figures = await read(at);
      return { part: name, state: worstOf(figures), at, fault: null, figures };
    } catch (error) {
      log.warn({ part: name, err: error }, "a part of the installation could not be read");
      return away(
        name,
        at,
        isAway(error) ? outageReason(error) : "it could not be read; the API's log says why",
      );
    }
  }

  function readOnce(part: Part): Promise<PartReading> {
    const known = underWay.get(part.name);
    if (known !== undefined) return known;
    const reading = begin(part).finally(() => underWay.delete(part.name));
    underWay.set(part.name, reading);
    return reading;
  }

  return {
    async read(name) {
      const part = parts.find((each) => each.name === name);
      if (part === undefined) throw new Error(`There is no part ${name}`);
      const known = last.get(name);
      if (known !== undefined && clock.now() < addSeconds(known.at, freshSeconds)) return known;
      const late = away(name, clock.now(), `no answer within ${waitMs / 1000} s`);
      const reading = await within(waitMs, readOnce(part), late);
      last.set(name, reading);
      return reading;
    },
  };
}

function away(part: PartName, at: Date, fault: string): PartReading {
  return { part, state: "away", at, fault, figures: [] };
}
