import { addSeconds, type Clock, within } from "../clock.ts";
import { isAway, outageReason } from "../db/errors.ts";
import type { Logger } from "../log.ts";

/** The parts of an installation. Each is read on its own. */
export const partNames = [
  "api",
  "vault",
  "workers",
  "events",
  "webhooks",
  "mail",
  "operators",
  "ledger",
] as const;
export type PartName = (typeof partNames)[number];

/** States of a figure, the worst last. `well`: nothing known is wrong. Alert rules judge amounts and ages. */
export const figureStates = ["well", "look", "act"] as const;
export type FigureState = (typeof figureStates)[number];
/** States of a part. `away`: the part, or the place that its figures come from, gave no answer. */
export const partStates = [...figureStates, "away"] as const;
export type PartState = (typeof partStates)[number];

/** Units of figures. */
export const units = ["count", "seconds", "time", "text"] as const;

/** One figure of a part. It contains nothing that belongs to tenants. */
export type Figure = {
  /** The metric's name, or a name of its own where there is no metric. */
  name: string;
  /** The one of several things that the figure is about: a consumer, a state, a cluster. */
  about: string | null;
  /** A time is ISO 8601; `null` means that there is nothing to tell. */
  value: number | string | null;
  unit: (typeof units)[number];
  /** When the value was read. */
  at: Date;
  state: FigureState;
};

/** A part and how its figures are read, one query at a time. `read` rejects when they cannot be known. */
export type Part = { name: PartName; read(now: Date): Promise<Figure[]> };

/** A count without anything wrong, unless `fields` say otherwise. */
export function figure(fields: Pick<Figure, "name" | "value" | "at"> & Partial<Figure>): Figure {
  return { about: null, unit: "count", state: "well", ...fields };
}

/** One reading of a part. With `fault` the part gave no answer, and there are no figures. */
export type PartReading = {
  part: PartName;
  state: PartState;
  at: Date;
  fault: string | null;
  figures: readonly Figure[];
};

/** The parts of an installation. */
export type Installation = {
  /** Reads a part, or returns a reading of a moment ago. Never rejects, and answers within a bounded time. */
  read(part: PartName): Promise<PartReading>;
};

type InstallationDeps = {
  parts: readonly Part[];
  clock: Clock;
  log: Logger;
  /** Milliseconds until a part counts as away. Default 3,000. */
  waitMs?: number;
  /** Seconds for which a reading is returned again. Default 5. */
  freshSeconds?: number | undefined;
};

/**
 * Reads each part once at a time and shares the reading among all who ask meanwhile. A reading that takes too
 * long continues in the background; no other reading of its part begins before it ends.
 */
export function createInstallation(deps: InstallationDeps): Installation {
  const { parts, clock, log, waitMs = 3_000, freshSeconds = 5 } = deps;
  const running = new Map<PartName, Promise<PartReading>>();
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
    const known = running.get(part.name);
    if (known !== undefined) return known;
    const reading = begin(part).finally(() => running.delete(part.name));
    running.set(part.name, reading);
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

function worstOf(figures: readonly Figure[]): FigureState {
  return figureStates.findLast((state) => figures.some((each) => each.state === state)) ?? "well";
}

function away(part: PartName, at: Date, fault: string): PartReading {
  return { part, state: "away", at, fault, figures: [] };
}
