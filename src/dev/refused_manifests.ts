import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import { printable } from "../events/command/report.ts";
import type { Terminal } from "./terminal.ts";

const EVERY_MS = 250;

const errorFile = z.object({
  errors: z.array(
    z.object({
      file: z.string(),
      document: z.int().optional(),
      object: z.string().optional(),
      faults: z.array(z.string()),
    }),
  ),
});
type Entry = z.infer<typeof errorFile>["errors"][number];

/**
 * Warns about each document that the operator refuses, once per reason, as soon as the operator has written
 * it to its list of errors in `status`. Also reports when all documents are accepted again. Call the returned
 * function to stop.
 */
export function reportRefused(status: string, terminal: Pick<Terminal, "warn" | "line">): () => void {
  const path = join(status, "errors.yaml");
  let stamp = "";
  let known = new Set<string>();
  let isReading = false;

  async function look(): Promise<void> {
    const now = await stampOf(path);
    if (now === stamp) return;
    stamp = now;
    const lines = now === "" ? [] : (await readEntries(path)).map(lineOf);
    for (const line of lines) if (!known.has(line)) terminal.warn(line);
    if (lines.length === 0 && known.size > 0) terminal.line("All documents of the folder are accepted again");
    known = new Set(lines);
  }

  const timer = setInterval(() => {
    if (isReading) return;
    isReading = true;
    // The file may vanish while it is read. The next look sees its new state.
    void look()
      .catch(() => undefined)
      .finally(() => {
        isReading = false;
      });
  }, EVERY_MS);
  return () => clearInterval(timer);
}

/** Changes whenever the file is replaced. Empty if there is no file. */
function stampOf(path: string): Promise<string> {
  return stat(path).then(
    ({ ino, mtimeMs, size }) => `${ino} ${mtimeMs} ${size}`,
    () => "",
  );
}

async function readEntries(path: string): Promise<Entry[]> {
  return errorFile.parse(parse(await readFile(path, "utf8"))).errors;
}

function lineOf({ file, document, object, faults }: Entry): string {
  const place = document === undefined ? file : `${file} (document ${document})`;
  const about = object === undefined ? place : `${place}, ${object}`;
  return printable(`Refused: ${about}: ${faults.join("; ")}`);
}
