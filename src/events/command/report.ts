import { isUuid } from "../../ids.ts";
import { UsageError } from "../../input/exit_status.ts";
import { isoTimeInput } from "../../input/schemas.ts";

/** The result of a command as JSON, and the same content as lines. `status` is the exit status if not 0. */
export type Report = { json: Record<string, unknown>; lines: string[]; status?: number };

/** The user requested something that cannot be done. The message says why. Nothing was changed. */
export class EventsError extends Error {
  override name = "EventsError";
}

/** The command began its work and could not finish. The message says how to continue. */
export class UnfinishedError extends Error {
  override name = "UnfinishedError";
}

/** Returns a number and its noun, such as `1 event` or `2 events`. */
export function counted(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? "" : "s"}`;
}

/** Escapes control characters and characters that change the direction of text, for a terminal. */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, escaped);
}

/** Returns one line of JSON that is safe for a terminal. */
export function printableJson(value: unknown): string {
  return printable(JSON.stringify(value));
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

const TIME_RULE = "a time such as 2026-11-24T09:30:00Z";

/** Parses the time given for a command-line option. Throws `UsageError`. */
export function readTime(option: string, text: string): Date {
  const read = isoTimeInput.safeParse(text);
  if (!read.success) throw new UsageError(`${option} is not ${TIME_RULE}`);
  return new Date(read.data);
}

/** Returns a UUID in lower case. Throws `UsageError` if invalid. `what` names the value in the message. */
export function readUuid(text: string, what: string): string {
  const id = text.toLowerCase();
  if (!isUuid(id)) throw new UsageError(`${JSON.stringify(text)} is not ${what}`);
  return id;
}
