import { resolve } from "node:path";
import { parseUsd, USD_RULE } from "../accounts/ledger/amounts.ts";
import { WORD } from "../config.ts";
import { UserError } from "./user_error.ts";

/** The port that was typed: 0 takes a free one. Throws `UserError` for anything but 0 to 65535 in digits. */
export function readPort(text: string): number {
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port > 65_535) {
    throw new UserError(
      `--port ${JSON.stringify(text)} is not a port`,
      "Give a number from 0 to 65535; 0 takes a free one",
    );
  }
  return port;
}

/**
 * The data folder that was typed, absolute. Throws `UserError` when there is none: the word after an option
 * without a value is read as its value.
 */
export function readFolder(text: string): string {
  if (text === "" || text.startsWith("--")) {
    throw new UserError("--data needs a folder", "Give its path, such as --data .deputize");
  }
  return resolve(text);
}

/**
 * The further words that were typed, each `--alias` one or several with commas between. Throws `UserError`
 * for anything that is not a word.
 */
export function readAliases(texts: readonly string[]): string[] {
  const words = texts.flatMap((text) => text.split(",").map((word) => word.trim()));
  for (const word of words) {
    if (WORD.test(word)) continue;
    const form = "1 to 32 lower-case letters and digits, a letter first, such as --alias ratify";
    throw new UserError(`--alias ${JSON.stringify(word)} is not a word for paths and headers: ${form}`);
  }
  return [...new Set(words)];
}

/** The micro-USD of the US dollars that were typed. Throws `UserError` for anything but an amount. */
export function readCredits(text: string): number {
  const amount = parseUsd(text);
  if (amount === undefined) {
    throw new UserError(
      `--credits ${JSON.stringify(text)} is not ${USD_RULE}`,
      "Give one, such as --credits 50",
    );
  }
  return amount;
}
