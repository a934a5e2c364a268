import { createWriteStream, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The files that a run writes to its folder, with one kind of JSON lines in each. */
export type Lines = {
  /**
   * Every event and decision that the generator tried to write. `of` is the id of its connection or account.
   */
  appended: {
    id: string;
    kind: "event" | "poison" | "decision";
    of: string;
    outcome: "committed" | "rolled_back" | "unknown";
  };
  /**
   * Every request that a receiver received, with its response and the rule violations found in it. Times are
   * in milliseconds.
   */
  received: {
    id: string;
    connectionId: string;
    deliveryId: string;
    at: number;
    status: number;
    faults: string[];
  };
  /** Every inflicted fault, from its start until its end. */
  faults: { name: string; from: number; until: number };
  /**
   * Every delivery in the database, in the order of its connection, with the attempts that ended without a
   * result.
   */
  deliveries: {
    deliveryId: string;
    connectionId: string;
    state: string;
    attempts: number;
    lost: { from: number; until: number }[];
  };
  /** Dead letters in the database and on their topic. `id` is the id from the generator, or null. */
  dead_letters: { eventId: string; id: string | null; type: string };
  dead_letter_records: { eventId: string };
  /**
   * The histories in the database, in the order of each account. `entry` is the entry as the owner sees it.
   */
  history: { accountId: string; entry: string };
  /** The audit topic, in the order of its partitions. */
  audit: { accountId: string; recordId: string; entry: string };
};

const fileOf = (folder: string, name: keyof Lines) => join(folder, `${name}.ndjson`);

/** Opens a file to append lines. */
export function openLines<Name extends keyof Lines>(folder: string, name: Name) {
  const stream = createWriteStream(fileOf(folder, name), { flags: "a" });
  return {
    write: (line: Lines[Name]) => void stream.write(`${JSON.stringify(line)}\n`),
    close: () => new Promise<void>((resolve) => stream.end(resolve)),
  };
}

/** Reads all lines of a file. Returns none if the file does not exist. */
export function readLines<Name extends keyof Lines>(folder: string, name: Name): Lines[Name][] {
  const file = fileOf(folder, name);
  if (!existsSync(file)) return [];
  return readFileSync(file, "utf8")
    .split("\n")
    .filter((text) => text !== "")
    .map((text) => JSON.parse(text));
}
