import { resolve } from "node:path";
import { Problem } from "./problem.ts";

/** The port that was typed: 0 takes a free one. Throws `Problem` for anything but 0 to 65535 in digits. */
export function readPort(text: string): number {
  refuseOption("--port", text);
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port > 65_535) {
    throw new Problem(
      `--port ${JSON.stringify(text)} is not a port`,
      "Give a number from 0 to 65535; 0 takes a free one",
    );
  }
  return port;
}

/** The data folder that was typed, absolute. Throws `Problem` when it is none. */
export function readFolder(text: string): string {
  refuseOption("--data", text);
  if (text === "") throw new Problem("--data needs a folder", "Give its path, such as --data .deputize");
  return resolve(text);
}

/** What follows an option without its value is taken for the value. */
function refuseOption(option: string, text: string): void {
  if (!text.startsWith("--")) return;
  throw new Problem(
    `${option} has no value: ${text} follows it`,
    `Give one, such as ${option} ${EXAMPLES[option]}`,
  );
}

const EXAMPLES: Record<string, string> = { "--port": "8080", "--data": ".deputize" };
