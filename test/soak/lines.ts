import { createWriteStream, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Files of a run, each with JSON lines of one kind. */
export type Lines = {
  /** Events and decisions that the generator tried to write. `of` is the id of a connection or account. */
  appended: {
    id: string;
    kind: "event" | "poison" | "decision";
    of: string;
    outcome: "committed" | "rolled_back" | "unknown";
  };
  /** Every request to a receiver, with its response and its rule violations. Times are in milliseconds. */
  received: {
    id: string;
    connectionId: string;
    deliveryId: string;
    at: number;
    status: number;
    faults: string[];
  };
  faults: { name: string; from: number; until: number };
  /** Deliveries in each connection's order. `lost` has the attempts that ended without a result. */
  deliveries: {
    deliveryId: string;
    connectionId: string;
    state: string;
    attempts: number;
    lost: { from: number; until: number }[];
  };
  /** Dead letters in the database and on their topic. `id` is the generator's id, or null. */
  dead_letters: { eventId: string; id: string | null; type: string };
  dead_letter_records: { eventId: string };
  /** The histories in the database, in each account's order. `entry` is what the owner sees. */
  history: { accountId: string; entry: string };
  /** Records of the audit topic, in the order of its partitions. */
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

/** Reads the lines of a file, or none if the file does not exist. */
export function readLines<Name extends keyof Lines>(folder: string, name: Name): Lines[Name][] {
  const file = fileOf(folder, name);
  if (!existsSync(file)) return [];
  return readFileSync(file, "utf8")
    .split("\n")
    .filter((text) => text !== "")
    .map((text) => JSON.parse(text));
}
