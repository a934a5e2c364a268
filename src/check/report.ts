import { existsSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { counted, printable, printableJson } from "../events/command/report.ts";
import { keyText } from "../operator/kinds.ts";
import type { Spot } from "./entries.ts";
import { documentPath, type Fault } from "./find_faults.ts";
import { openPlaces, type Place, type Places } from "./places.ts";

/** One fault as the command shows it. Lines and columns count from 1. */
export type Finding = {
  severity: Fault["severity"];
  rule: Fault["rule"];
  /** Path from the current folder. */
  file: string;
  line: number;
  column: number;
  /** Kind, namespace and name, such as `Platform/shop/store`. */
  object: string | null;
  path: string;
  message: string;
  suggestion: string | null;
};

/**
 * Numbers of what was checked. `others` counts the documents that have nothing to do with Deputize. `skipped`
 * has the paths in the folder that were not read.
 */
export type Counts = { files: number; objects: number; bindings: number; others: number; skipped: string[] };

/** The texts of the checked files by their paths in `folder`. A file that could not be read has no text. */
export type Sources = { folder: string; texts: ReadonlyMap<string, string> };

/** Returns the place of a field in one of the sources' files. */
type FindPlace = (spot: Spot, path: string) => Place | undefined;

/** Creates a search that reads the positions in each file at most once. */
export function createPlaceSearch({ texts }: Sources): FindPlace {
  const known = new Map<string, Places>();
  return ({ file, document }, path) => {
    const text = texts.get(file);
    if (text === undefined || document === 0) return undefined;
    const places = known.get(file) ?? openPlaces(text);
    known.set(file, places);
    return places(document, path);
  };
}

/** Returns the faults with their places, sorted by place. */
export function findingsOf(faults: readonly Fault[], sources: Sources): Finding[] {
  const find = createPlaceSearch(sources);
  const findings = faults.map((fault): Finding => {
    const { severity, rule, spot, key, path, message, suggestion = null } = fault;
    const { line, column } = find(spot, documentPath(fault)) ?? { line: fault.line ?? 1, column: 1 };
    const file = join(sources.folder, spot.file);
    const object = key === undefined ? null : keyText(key);
    return { severity, rule, file, line, column, object, path, message, suggestion };
  });
  return findings.sort(
    (left, right) => compare(left.file, right.file) || left.line - right.line || left.column - right.column,
  );
}

function compare(left: string, right: string): number {
  return left < right ? -1 : Number(left > right);
}

/** Returns findings as lines such as `shop.yaml:3:5 error: Platform/default/shop: spec.x: unknown field`. */
export function textLines(findings: readonly Finding[]): string[] {
  return findings.map((finding) => {
    const { file, line, column, severity, object } = finding;
    const subject = object === null ? "" : `${object}: `;
    return textLine(`${file}:${line}:${column} ${severity}: ${subject}${sentence(finding)}`);
  });
}

/** Returns a text as one safe line. If it began with two colons, GitHub Actions would read a command. */
export function textLine(text: string): string {
  return printable(text.startsWith("::") ? `./${text}` : text);
}

/** Returns a finding without its place and object. */
function sentence({ path, message, suggestion }: Finding): string {
  const about = path === "" ? message : `${path}: ${message}`;
  return suggestion === null ? about : `${about}. Did you mean ${suggestion}?`;
}

/**
 * Returns findings as workflow commands of GitHub Actions, which shows them at the lines of a pull request.
 * Paths start at the repository's top folder.
 */
export function annotations(findings: readonly Finding[]): string[] {
  return findings.map((finding) => {
    const { severity, file, line, column, object } = finding;
    const title = object ?? "Deputize";
    return command(severity, { file: fromTop(file), line, col: column, title }, sentence(finding));
  });
}

/** Returns one workflow command. A manifest's text cannot end the command or begin another one. */
export function command(
  name: string,
  properties: Readonly<Record<string, string | number>>,
  text: string,
): string {
  const escaped = (value: string) =>
    printable(value).replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
  const given = Object.entries(properties).map(
    ([key, value]) => `${key}=${escaped(String(value)).replaceAll(":", "%3A").replaceAll(",", "%2C")}`,
  );
  return `::${name} ${given.join(",")}::${escaped(text)}`;
}

/** Returns a path from the top folder of the Git repository, or from the current folder without one. */
export function fromTop(path: string): string {
  const absolute = resolve(path);
  for (let folder = dirname(absolute); ; folder = dirname(folder)) {
    if (existsSync(join(folder, ".git"))) return relative(folder, absolute);
    if (folder === dirname(folder)) return path;
  }
}

/** Returns findings and counts as one line of JSON. */
export function jsonLine(findings: readonly Finding[], counts: Counts, more: object = {}): string {
  return printableJson({ ok: errorsIn(findings) === 0, ...counts, findings, ...more });
}

/** Returns one sentence about the result. */
export function summary(
  findings: readonly Finding[],
  { files, objects, bindings, others, skipped }: Counts,
): string {
  const errors = errorsIn(findings);
  const found = `${counted(errors, "error")}, ${counted(findings.length - errors, "warning")}`;
  const bound = bindings === 0 ? "" : ` and ${counted(bindings, "namespace binding")}`;
  const left = others === 0 ? "" : ` Left out ${counted(others, "document")} of other kinds.`;
  return `${found} in ${counted(objects, "object")}${bound} of ${counted(files, "file")}.${left}${skippedText(skipped)}`;
}

const NAMED_PATHS = 10;

/** Returns a sentence that names the skipped paths, or an empty text. */
export function skippedText(paths: readonly string[]): string {
  if (paths.length === 0) return "";
  const more = paths.length - NAMED_PATHS;
  const named = paths.slice(0, NAMED_PATHS).map(printable).join(", ");
  return ` Skipped: ${named}${more > 0 ? ` and ${more} more` : ""}.`;
}

/** Returns the number of errors. */
export function errorsIn(findings: readonly Finding[]): number {
  return findings.filter(({ severity }) => severity === "error").length;
}
