import { isUuid } from "../../ids.ts";
import { isoTimeInput } from "../../input/schemas.ts";
import { EventsError } from "./report.ts";

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
