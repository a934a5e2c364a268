import { addSeconds, type Clock, within } from "../clock.ts";
import { isAway, outageReason } from "../db/errors.ts";
import type { Logger } from "../log.ts";

/** The components of an installation whose state can be read separately. */
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

/** From best to worst. `well`: no known problem. Unlike alert rules, the states ignore amounts and ages. */
export const figureStates = ["well", "look", "act"] as const;
export type FigureState = (typeof figureStates)[number];
/** States of a part. `away` means that the part did not respond. */
export const partStates = [...figureStates, "away"] as const;
export type PartState = (typeof partStates)[number];

/** Units of figures. */
export const units = ["count", "seconds", "time", "text"] as const;

/** One measured value of a part. It contains no tenant data. */
export type Figure = {
  /** The metric's name, if there is a metric. */
  name: string;
  /** The subject of the figure if a part has several: a consumer, a state, a cluster. */
  about: string | null;
  /** A point in time is in ISO 8601. `null` means that there is no value. */
  value: number | string | null;
  unit: (typeof units)[number];
  at: Date;
  state: FigureState;
};

/** `read` runs one query at a time, and rejects if the figures cannot be determined. */
export type Part = { name: PartName; read(now: Date): Promise<Figure[]> };

/** Creates a figure. Defaults to unit `count` and state `well`. */
export function figure(fields: Pick<Figure, "name" | "value" | "at"> & Partial<Figure>): Figure {
  return { about: null, unit: "count", state: "well", ...fields };
}

/** The figures of a part. If `fault` is set, the part did not respond and there are no figures. */
export type PartReading = {
  part: PartName;
  state: PartState;
  at: Date;
  fault: string | null;
  figures: readonly Figure[];
};

/** Reads the parts of an installation. */
export type Installation = {
  /** Reads a part, or returns a recent result. Never rejects, and resolves within a limited time. */
  read(part: PartName): Promise<PartReading>;
};

type InstallationDeps = {
  parts: readonly Part[];
  clock: Clock;
  log: Logger;
  /** Milliseconds after which a part without a result counts as `away`. Defaults to 3,000. */
  waitMs?: number;
  /** Seconds for which a result is reused. Defaults to 5. */
  freshSeconds?: number | undefined;
};

/**
 * Creates an installation. Concurrent callers share one check of a part. A check that takes too long
 * continues in the background, and the part is not checked again until that check ends.
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
      if (part === undefined) throw new Error(`Unknown part of the installation: ${name}`);
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
