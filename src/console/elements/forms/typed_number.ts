/** No coordinate is above. */
export const MOST_DEGREES = 180;

/** One mark between digits, three of them behind it: "1,000" is a thousand to some, and one to others. */
const IN_TWO_WAYS = /^(-?[1-9]\d{0,2})[.,](\d{3})$/;

/**
 * The numbers that somebody may have meant: one, two for a text like "1,000" or "1.000", none for what is no
 * number, or has several marks, like "1,000.50". A reading above `most` was not meant: "13.405" is one
 * longitude.
 */
export function readingsOf(text: string, most = Number.POSITIVE_INFINITY): number[] {
  const typed = text.trim().replace("−", "-");
  if (!/^-?\d+([.,]\d+)?$/.test(typed)) return [];
  const fraction = Number(typed.replace(",", "."));
  const [, before, behind] = IN_TWO_WAYS.exec(typed) ?? [];
  const whole = Number(`${before}${behind}`);
  return before === undefined || Math.abs(whole) > most ? [fraction] : [whole, fraction];
}

/** A number as a text that has one reading: a fraction of three digits gets one more. */
export function writtenNumber(value: number): string {
  const text = String(value).includes("e") ? value.toFixed(20).replace(/0+$/, "") : String(value);
  return IN_TWO_WAYS.test(text) ? `${text}0` : text;
}
