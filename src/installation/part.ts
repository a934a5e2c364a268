import type { AlertName } from "./alerts.ts";

/** The parts of an installation that are looked at, each by itself. */
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

/** How something does: nothing to do, to be looked at in the day, or now. The worst comes last. */
export const figureStates = ["well", "look", "act"] as const;
export type FigureState = (typeof figureStates)[number];
/** How a part does; `away` when it, or what tells of it, gave no answer. */
export const partStates = [...figureStates, "away"] as const;
export type PartState = (typeof partStates)[number];

/** What a figure counts or says. */
export const units = ["count", "seconds", "milliseconds", "time", "text"] as const;

/** One figure of a part: nothing of what belongs to tenants. */
export type Figure = {
  /** A metric's name where there is one, else one of its own. */
  name: string;
  /** What of several it is about: a consumer, a state, a cluster. */
  about: string | null;
  /** A time is ISO 8601; `null` where there is nothing to tell. */
  value: number | string | null;
  unit: (typeof units)[number];
  /** When it was so. */
  at: Date;
  state: FigureState;
  /** The alert rule that says the same. */
  alert: AlertName | null;
};

/** A part and how its figures are read, with one query at a time. Rejects when they cannot be known. */
export type Part = { name: PartName; read(now: Date): Promise<Figure[]> };

/** A figure that nothing is wrong with, unless `fields` say so. */
export function figure(fields: Pick<Figure, "name" | "value" | "at"> & Partial<Figure>): Figure {
  return { about: null, unit: "count", state: "well", alert: null, ...fields };
}

/** The worst state of some figures. */
export function worstOf(figures: readonly Figure[]): FigureState {
  return figureStates.findLast((state) => figures.some((each) => each.state === state)) ?? "well";
}
