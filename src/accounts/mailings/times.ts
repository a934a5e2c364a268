import { addSeconds } from "../../clock.ts";

const DAY = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  year: "numeric",
  timeZone: "UTC",
});

/** Returns a day in UTC, such as "28 Dec 2026". */
export function dayOf(time: Date): string {
  return DAY.format(time);
}

/** If an end is fewer seconds away than this, the day alone says too little. */
export const SOON_SECONDS = 2 * 24 * 3600;

/** Returns the day of an end. Within two days, it returns the time of day too. */
export function endOn(end: Date, now: Date): string {
  return end < addSeconds(now, SOON_SECONDS)
    ? `on ${dayOf(end)} at ${end.toISOString().slice(11, 16)} UTC`
    : `on ${dayOf(end)}`;
}

/** Returns a length in hours and minutes, such as "2 hours 30 minutes", rounded up to a minute. */
export function lengthOf(seconds: number): string {
  const minutes = Math.ceil(seconds / 60);
  const parts = [counted(Math.floor(minutes / 60), "hour"), counted(minutes % 60, "minute")];
  return parts.filter((part) => part !== "").join(" ");
}

function counted(count: number, unit: string): string {
  return count === 0 ? "" : `${count} ${unit}${count === 1 ? "" : "s"}`;
}
