import { resolve } from "node:path";
import { parseUsd, USD_RULE } from "../accounts/ledger/amounts.ts";
import { WORD } from "../config.ts";
import { exitStatus } from "../input/exit_status.ts";
import { UserError } from "./user_error.ts";

const WRONG_USAGE = { status: exitStatus.usage };

/** Parses a port; 0 selects a free one. Throws `UserError` unless the string is a number from 0 to 65535. */
export function readPort(text: string): number {
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port > 65_535) {
    throw new UserError(
      `--port ${JSON.stringify(text)} is not a port`,
      "Give a number from 0 to 65535; 0 selects a free one",
      WRONG_USAGE,
    );
  }
  return port;
}

/** Returns an absolute path. Throws `UserError` if the text is empty or is another option. */
export function readFolder(text: string): string {
  if (text === "" || text.startsWith("--")) {
    throw new UserError("--data needs a folder", "Enter a path, such as --data .deputize", WRONG_USAGE);
  }
  return resolve(text);
}

/** Parses `--alias` options, which are lists with commas. Throws `UserError` for an invalid alias. */
export function readAliases(texts: readonly string[]): string[] {
  const words = texts.flatMap((text) => text.split(",").map((word) => word.trim()));
  for (const word of words) {
    if (WORD.test(word)) continue;
    const form = "1 to 32 lowercase letters and digits, starting with a letter, such as --alias ratify";
    throw new UserError(`--alias ${JSON.stringify(word)} is not valid: use ${form}`, undefined, WRONG_USAGE);
  }
  return [...new Set(words)];
}

/** Converts US dollars to micro-USD. Throws `UserError` if the string is not an amount. */
export function readCredits(text: string): number {
  const amount = parseUsd(text);
  if (amount === undefined) {
    throw new UserError(
      `--credits ${JSON.stringify(text)} is not ${USD_RULE}`,
      "Give an amount of US dollars, such as --credits 50",
      WRONG_USAGE,
    );
  }
  return amount;
}
