import { isUuid } from "../../ids.ts";
import { isoTimeInput } from "../../input/schemas.ts";

/**
 * What a command found or did: one object, and the same as lines for people. `status` is the exit status
 * where it is not 0.
 */
export type Report = { json: Record<string, unknown>; lines: string[]; status?: number };

/** Something was asked for that cannot be done; the message says why. Nothing was changed. */
export class EventsError extends Error {
  override name = "EventsError";
}

/** Something was begun and could not be finished; the message says how to go on. */
export class UnfinishedError extends Error {
  override name = "UnfinishedError";
}

/** A number of things, in words. */
export function counted(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? "" : "s"}`;
}

/**
 * A text that others wrote, fit for a terminal: control characters, which could move its cursor or change
 * what was printed, and those that turn the direction of a line are shown as escapes.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, escaped);
}

/** One line of JSON of which the same holds. */
export function printableJson(value: unknown): string {
  return printable(JSON.stringify(value));
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

const TIME_RULE = "a time such as 2026-11-24T09:30:00Z";

/** The moment that was typed for an option. Throws `EventsError`. */
export function readTime(option: string, text: string): Date {
  const read = isoTimeInput.safeParse(text);
  if (!read.success) throw new EventsError(`${option} is not ${TIME_RULE}`);
  return new Date(read.data);
}

/** The id that was typed, in lower case. Throws `EventsError`, which says what it should be. */
export function readUuid(text: string, what: string): string {
  const id = text.toLowerCase();
  if (!isUuid(id)) throw new EventsError(`${JSON.stringify(text)} is not ${what}`);
  return id;
}
