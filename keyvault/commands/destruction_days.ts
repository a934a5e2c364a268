import { InvalidArgumentError } from "commander";

/**
 * Days that a destruction waits, from the command line: 7 to 30. Throws commander's error for anything else.
 */
export function parseDestructionDays(text: string): number {
  const days = Number(text);
  if (!Number.isInteger(days) || days < 7 || days > 30) throw new InvalidArgumentError("Give 7 to 30 days.");
  return days;
}
