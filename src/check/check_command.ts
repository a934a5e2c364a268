import { stat } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { type Clock, systemClock } from "../clock.ts";
import { printable } from "../events/command/report.ts";
import { exitStatus, UsageError } from "../input/exit_status.ts";
import { MAX_FILE_BYTES } from "../operator/folder/documents.ts";
import { listHidden, type ManifestText, readRegularFile, readTexts } from "../operator/folder/listing.ts";
import { type Definition, readDefinitions } from "../operator/schema/read_crds.ts";
import { loadSchemas, type Schemas } from "../operator/schema/schemas.ts";
import { changesBetween } from "./changes.ts";
import { findFaults } from "./find_faults.ts";
import { formerFiles, GitFailed } from "./former_files.ts";
import { findOtherJson, isOtherJson } from "./other_json.ts";
import {
  annotations,
  type Counts,
  errorsIn,
  type Finding,
  findingsOf,
  jsonLine,
  type Sources,
  skippedText,
  summary,
  textLines,
} from "./report.ts";
import { changeLines, changeNotices, placeChanges, type ShownChange } from "./report_changes.ts";
import { readWorld, type World } from "./world.ts";

/** Options of `deputize check`, as given on the command line. `base` is a Git revision. */
export type CheckOptions = { folder: string; base?: string; json?: boolean; github?: boolean };

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
 * Checks the manifests of a folder, or one file, without a cluster or the service. With `base`, also compares
 * them with those of a Git revision. Prints the findings, and returns the exit status: 1 if there is an error
 * or nothing to check, 3 if Git fails. Throws `UsageError` if the folder or the revision cannot be read.
 */
export async function runCheck(
  options: CheckOptions,
  { out = process.stdout, err = process.stderr, clock = systemClock, rules = loadRules() }: Deps = {},
): Promise<number> {
  if (options.json === true && options.github === true) {
    throw new UsageError("--json and --github exclude each other");
  }
  try {
    const source = await readSource(options.folder);
    const former = options.base === undefined ? undefined : await readFormer(source, options.base);
    const result = judge(source, former, await rules, clock.now());
    out.write(
      linesOf(result, options)
        .map((line) => `${line}\n`)
        .join(""),
    );
    const { findings, counts, isEmpty } = result;
    if (isEmpty) {
      const text = `${printable(options.folder)} has no object of Deputize.${skippedText(counts.skipped)}`;
      err.write(`${text}\n`);
      return exitStatus.failed;
    }
    const isRefused = errorsIn(findings) > 0;
    if (isRefused || options.json !== true) (isRefused ? err : out).write(`${summary(findings, counts)}\n`);
    return isRefused ? exitStatus.failed : exitStatus.done;
  } catch (error) {
    if (!(error instanceof GitFailed)) throw error;
    err.write(`${printable(error.message)}\n`);
    return exitStatus.unavailable;
  }
}

/** The names of files that `kubectl apply -f` reads in a folder. */
const NAMES = /\.(ya?ml|json)$/;

type Result = { findings: Finding[]; counts: Counts; changes?: ShownChange[]; isEmpty: boolean };

function judge(
  source: Source,
  former: Source | undefined,
  { definitions, schemas }: Rules,
  now: Date,
): Result {
  const before = former && readWorld(former.files, schemas);
  const world = readWorld(source.files, schemas, before);
  const findings = findingsOf(findFaults(world, { definitions, former: before, now }), sourcesOf(source));
  const counts = countsOf(source, world);
  const isEmpty = counts.objects + counts.bindings === 0 && findings.length === 0;
  if (former === undefined || before === undefined) return { findings, counts, isEmpty };
  const changes = placeChanges(changesBetween(before, world), sourcesOf(source), sourcesOf(former));
  return { findings, counts, changes, isEmpty: isEmpty && before.declared.size + before.bindings.size === 0 };
}

function linesOf({ findings, counts, changes }: Result, { base = "", json, github }: CheckOptions): string[] {
  if (json === true) return [jsonLine(findings, counts, changes === undefined ? {} : { base, changes })];
  if (github === true) return [...annotations(findings), ...changeNotices(changes ?? [])];
  return [...textLines(findings), ...(changes === undefined ? [] : changeLines(changes, base))];
}

/**
 * The files of a folder, or its only file `name`. `skipped` has the paths that are not read: hidden ones, and
 * JSON files of other programs.
 */
type Source = { folder: string; files: ManifestText[]; skipped: string[]; name?: string };

async function readSource(path: string): Promise<Source> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) throw new UsageError(`${JSON.stringify(path)} does not exist`);
  if (!found.isDirectory()) {
    const name = basename(path);
    const file = { path: name, ...(await readRegularFile(path, MAX_FILE_BYTES)) };
    return { folder: dirname(path), files: [file], skipped: [], name };
  }
  const { files, fault } = await readTexts(path, 0, NAMES);
  if (fault !== undefined) throw new UsageError(`${JSON.stringify(path)}: ${fault}`);
  const others = await findOtherJson(path, files);
  const skipped = [...(await listHidden(path, NAMES)), ...others];
  return { folder: path, files: files.filter((file) => !others.has(file.path)), skipped };
}

async function readFormer({ folder, name }: Source, base: string): Promise<Source> {
  const files = await formerFiles(folder, base, { names: NAMES, only: name });
  return { folder, files: files.filter((file) => !isOtherJson(file)), skipped: [] };
}

function sourcesOf({ folder, files }: Source): Sources {
  const texts = files.flatMap(({ path, text }) => (text === undefined ? [] : [[path, text] as const]));
  return { folder, texts: new Map(texts) };
}

function countsOf({ files, skipped }: Source, world: World): Counts {
  return {
    skipped,
    files: files.length,
    objects: world.declared.size + world.refused.length + world.repeated.length,
    bindings: world.bindings.size,
    others: world.others,
  };
}
