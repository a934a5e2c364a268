import { stat } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { type Clock, systemClock } from "../clock.ts";
import { printable } from "../events/command/report.ts";
import { exitStatus, UsageError } from "../input/exit_status.ts";
import { MAX_FILE_BYTES } from "../operator/folder/documents.ts";
import { type ManifestText, readRegularFile, readTexts } from "../operator/folder/listing.ts";
import { type Definition, readDefinitions } from "../operator/schema/read_crds.ts";
import { loadSchemas, type Schemas } from "../operator/schema/schemas.ts";
import { findFaults } from "./find_faults.ts";
import { annotations, type Counts, errorsIn, findingsOf, jsonLine, summary, textLines } from "./report.ts";
import { readWorld, type World } from "./world.ts";

/** Options of `deputize check`, as given on the command line. */
export type CheckOptions = { folder: string; json?: boolean; github?: boolean };

type Output = { write(text: string): unknown };
type Deps = { out?: Output; err?: Output; clock?: Clock; rules?: Promise<Rules> };

/** The definitions in `crds/`, as read and as compiled. */
type Rules = { definitions: Definition[]; schemas: Schemas };

/** Reads and compiles the definitions, which takes longer than checking a small folder. */
export async function loadRules(): Promise<Rules> {
  const [definitions, schemas] = await Promise.all([readDefinitions(), loadSchemas()]);
  return { definitions, schemas };
}

/**
 * Checks the manifests of a folder, or one file, without a cluster or the service. Prints the findings, and
 * returns the exit status: 1 if there is an error or nothing to check. Throws `UsageError` if the folder
 * cannot be read.
 */
export async function runCheck(
  { folder: path, json = false, github = false }: CheckOptions,
  { out = process.stdout, err = process.stderr, clock = systemClock, rules = loadRules() }: Deps = {},
): Promise<number> {
  if (json && github) throw new UsageError("--json and --github exclude each other");
  const { folder, files } = await readSource(path);
  const { definitions, schemas } = await rules;
  const world = readWorld(files, schemas);
  const faults = findFaults(world, { definitions, now: clock.now() });
  const texts = new Map(files.flatMap(({ path, text }) => (text === undefined ? [] : [[path, text]])));
  const findings = findingsOf(faults, { folder, texts });
  const counts = countsOf(files, world);
  const isEmpty = faults.length === 0 && counts.objects + counts.bindings === 0;
  const lines = json ? [jsonLine(findings, counts)] : github ? annotations(findings) : textLines(findings);
  out.write(lines.map((line) => `${line}\n`).join(""));
  if (isEmpty) {
    err.write(`${printable(path)} has no object of Deputize.\n`);
    return exitStatus.failed;
  }
  const isRefused = errorsIn(findings) > 0;
  if (isRefused || !json) (isRefused ? err : out).write(`${summary(findings, counts)}\n`);
  return isRefused ? exitStatus.failed : exitStatus.done;
}

type Source = { folder: string; files: ManifestText[] };

/** A single file counts as the only one of its folder. */
async function readSource(path: string): Promise<Source> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) throw new UsageError(`${JSON.stringify(path)} does not exist`);
  if (!found.isDirectory()) {
    const name = basename(path);
    return {
      folder: dirname(path),
      files: [{ path: name, ...(await readRegularFile(path, MAX_FILE_BYTES)) }],
    };
  }
  const { files, fault } = await readTexts(path, 0);
  if (fault !== undefined) throw new UsageError(`${JSON.stringify(path)}: ${fault}`);
  return { folder: path, files };
}

function countsOf(files: readonly ManifestText[], world: World): Counts {
  return {
    files: files.length,
    objects: world.declared.size + world.refused.length + world.repeated.length,
    bindings: world.bindings.size,
    others: world.others,
  };
}
