/** The most that one amount may be: a million US dollars, in micro-USD. */
export const MOST_MICRO_USD = 1_000_000_000_000;

const MICRO = 1_000_000;
const DECIMALS = 6;
const DOLLARS = /^(0|[1-9]\d{0,6})(?:\.(\d{1,6}))?$/;

/**
 * The micro-USD of an amount that was typed in US dollars: above 0, up to a million, at most six decimals,
 * nothing but digits and a point. Undefined for anything else. The text is never read as a floating-point
 * number.
 */
export function parseUsd(text: string): number | undefined {
  const [match, whole = "", fraction = ""] = DOLLARS.exec(text) ?? [];
  if (match === undefined) return undefined;
  const amount = Number(whole) * MICRO + Number(fraction.padEnd(DECIMALS, "0"));
  return amount > 0 && amount <= MOST_MICRO_USD ? amount : undefined;
}

/** What a typed amount must be, for the message to a person who typed something else. */
export const USD_RULE = "a number of US dollars above 0 and up to 1000000, with at most six decimals";

/** An amount of micro-USD in US dollars, exactly: two decimals, and as many more as it needs. */
export function formatUsd(microUsd: number): string {
  const amount = Math.abs(microUsd);
  const fraction = String(amount % MICRO).padStart(DECIMALS, "0");
  const shown = fraction.replace(/0{1,4}$/, "");
  return `${microUsd < 0 ? "-" : ""}${Math.trunc(amount / MICRO)}.${shown}`;
}
