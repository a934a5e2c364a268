import {
  type Alias,
  isScalar,
  type Node,
  type Pair,
  parseAllDocuments,
  Scalar,
  visit,
  type Document as YamlDocument,
} from "yaml";
import { API_VERSION, type Key, type Kind, kinds } from "../kinds.ts";
import { BINDINGS_NAME } from "../namespace_bindings.ts";

/**
 * The content of one YAML document. `bindings` is the namespace bindings. Unreadable content may be a broken
 * version of any object in the file, or, with a name, of the object with that name. `path` is the field that
 * is at fault.
 */
export type Identified =
  | { type: "object"; key: Key; value: Record<string, unknown> }
  | { type: "bindings"; data: Record<string, string> }
  | { type: "empty" }
  | { type: "unknown"; fault: string; name?: string; path?: string };

/** `number` counts the file's documents from 1. */
type ManifestDocument = { number: number; identified: Identified };

/**
 * The documents of a file, or the reason why none of them can be trusted. `beingWritten` means that another
 * program is writing the file now, which is not an error.
 */
export type ManifestFile =
  | { path: string; documents: ManifestDocument[]; fault?: never; beingWritten?: never }
  | { path: string; documents?: never; fault: string; beingWritten?: true };

/** In bytes. */
export const MAX_FILE_BYTES = 1024 * 1024;

const MAX_NAME_LENGTH = 63;

/** Splits a file into documents. A syntax error makes the whole file faulty: it may be half-written. */
export function readDocuments(path: string, text: string): ManifestFile {
  const { values, fault } = readYaml(text);
  if (fault !== undefined) return { path, fault };
  const documents = values.map((value, index) => ({ number: index + 1, identified: identify(value) }));
  return { path, documents };
}

/** Returns what a document declares. An object gets the namespace `default` if it has none. */
export function identify(value: unknown): Identified {
  if (value === null || value === undefined) return { type: "empty" };
  if (!isMapping(value)) return { type: "unknown", fault: "the document is not an object" };
  const { apiVersion, kind, metadata } = value;
  if (!isMapping(metadata)) return { type: "unknown", fault: "metadata is missing" };
  const { name, namespace = "default" } = metadata;
  if (apiVersion === "v1" && kind === "ConfigMap" && name === BINDINGS_NAME) return bindings(value);
  if (apiVersion !== API_VERSION || !isKind(kind)) {
    const fault = `${String(apiVersion)} ${String(kind)} is not a kind of ${API_VERSION}`;
    return { type: "unknown", fault, ...(typeof name === "string" && { name }) };
  }
  if (!isName(name, MAX_NAME_LENGTH, SUBDOMAIN)) {
    const fault = `metadata.name is missing, not a name or longer than ${MAX_NAME_LENGTH} characters`;
    return { type: "unknown", fault, path: "metadata.name" };
  }
  if (!isName(namespace, MAX_NAME_LENGTH, LABEL)) {
    return { type: "unknown", fault: "metadata.namespace is not a name", path: "metadata.namespace" };
  }
  const { status: _, ...rest } = value;
  return {
    type: "object",
    key: { kind, namespace, name },
    value: { ...rest, metadata: { ...metadata, namespace } },
  };
}

function bindings({ data }: Record<string, unknown>): Identified {
  const entries = data === undefined || data === null ? {} : data;
  if (isMapping(entries) && Object.values(entries).every((entry) => typeof entry === "string")) {
    return { type: "bindings", data: entries as Record<string, string> };
  }
  return { type: "unknown", fault: `data of ${BINDINGS_NAME} must map namespaces to text`, path: "data" };
}

const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

function isName(value: unknown, maxLength: number, form: RegExp): value is string {
  return typeof value === "string" && value.length <= maxLength && form.test(value);
}

function isKind(kind: unknown): kind is Kind {
  return kinds.some((known) => known === kind);
}

/** Returns whether a value is an object with members. */
export function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The documents' values, or the reason and line why kubectl would reject the file or read it differently. */
type YamlFile =
  | { values: unknown[]; fault?: never; line?: never }
  | { values?: never; fault: string; line?: number };

/** Options that let the YAML parser read a file as kubectl does. */
export const YAML_OPTIONS = { schema: "failsafe", merge: true, keepSourceTokens: true } as const;

const MAX_ALIASES = 100;
const TEXT_TAG = "tag:yaml.org,2002:str";

/** Constructs that kubectl refuses, or where it would split documents or lines differently. */
const FOREIGN: readonly [pattern: RegExp, fault: string][] = [
  [/[\u0085\u2028\u2029]/, "has a character that ends a line only in YAML 1.1: write it as an escape"],
  [/^---(?![ \t\r]*(?:#.*)?$)/m, "has text after ---: begin it on a line of its own"],
  [/^\.\.\.(?=\s|$)/m, "has an end of a document: separate documents with ---"],
  [/^%/m, "has a directive: leave it out"],
];

const WORDS = new Map<string, boolean | null>([
  ...["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"].map(
    (word) => [word, true] as const,
  ),
  ...["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"].map(
    (word) => [word, false] as const,
  ),
  ...["", "~", "null", "Null", "NULL"].map((word) => [word, null] as const),
]);
const INTEGER = /^([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))$/;
const DECIMAL = /^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$/;
const NO_NUMBER = /^[-+]?\.(?:inf|Inf|INF|nan|NaN|NAN)$/;

class YamlFault extends Error {
  readonly offset: number;
  constructor(offset: number, message: string) {
    super(message);
    this.offset = offset;
  }
}

/**
 * Reads a file as kubectl does: YAML 1.1 with merge keys. `yes` is true and `0100` is 64, but dates and times
 * of day are strings. Content that kubectl would refuse or read differently is a fault.
 */
export function readYaml(text: string): YamlFile {
  const lineOf = (offset: number) => text.slice(0, offset).split("\n").length;
  const faultAt = (line: number, fault: string): YamlFile => ({ fault: `line ${line} ${fault}`, line });
  for (const [pattern, fault] of FOREIGN) {
    const offset = text.search(pattern);
    if (offset >= 0) return faultAt(lineOf(offset), fault);
  }
  try {
    const documents = parseAllDocuments(text, YAML_OPTIONS);
    if (!Array.isArray(documents)) return { values: [] };
    const [error] = documents.flatMap(({ errors }) => errors);
    if (error === undefined) return { values: documents.map((document) => contentOf(document)) };
    const [place] = error.linePos ?? [];
    const fault = error.message.split("\n")[0] ?? "the file is not YAML";
    return { fault, ...(place !== undefined && { line: place.line }) };
  } catch (error) {
    if (error instanceof YamlFault) return faultAt(lineOf(error.offset), error.message);
    if (error instanceof ReferenceError) return { fault: aliasFault(error) };
    return { fault: "the file is not YAML" };
  }
}

function aliasFault({ message }: ReferenceError): string {
  return message.startsWith("Excessive")
    ? "has aliases that expand too far: write the values out"
    : "has an alias without an anchor before it";
}

function contentOf(document: YamlDocument.Parsed): unknown {
  visit(document, {
    Seq: (_, node) => checkTag(node),
    Map: (_, node) => {
      checkTag(node);
      node.items.slice(1).forEach(checkNoMerge);
    },
    Pair: (_, pair) => checkKey(pair),
    Alias: (_, alias, around) => checkNoCycle(alias, around, document),
    Scalar: (place, node) => {
      checkTag(node);
      if (place !== "key") node.value = plainValue(node);
    },
  });
  return document.toJS({ maxAliasCount: MAX_ALIASES });
}

function checkTag(node: Node & { tag?: string }): void {
  if (node.tag !== undefined && !(isScalar(node) && node.tag === TEXT_TAG)) {
    throw new YamlFault(offsetOf(node), `has the tag ${node.tag}: leave it out`);
  }
}

/**
 * Throws `YamlFault` for a key that is not a string. kubectl converts some of these keys to other strings
 * than the file contains.
 */
function checkKey({ key }: Pair): void {
  const node = key as Node;
  if (!isScalar(node)) throw new YamlFault(offsetOf(node), "has a key that is not text");
  if (typeof plainValue(node) !== "string") {
    throw new YamlFault(
      offsetOf(node),
      `has the key ${String(node.value)}, which is not text: put it in quotes`,
    );
  }
}

/** Throws `YamlFault` for an alias to a node that contains it. The value would have no end. */
function checkNoCycle(alias: Alias, around: readonly unknown[], document: YamlDocument): void {
  const target: unknown = alias.resolve(document);
  if (target !== undefined && around.includes(target)) {
    throw new YamlFault(offsetOf(alias), `has the alias *${alias.source} inside its own anchor`);
  }
}

/** Throws `YamlFault` for a merge key after other keys. kubectl would let it override these keys. */
function checkNoMerge({ key }: Pair): void {
  if (isScalar(key) && key.type === Scalar.PLAIN && key.source === "<<") {
    throw new YamlFault(offsetOf(key), "has the merge key << after other keys: begin the object with it");
  }
}

/** Returns the value of a scalar. Quoted scalars, block scalars and scalars tagged as strings are strings. */
function plainValue(node: Scalar): unknown {
  const text = node.value === null ? "" : String(node.value);
  if (node.type === Scalar.QUOTE_DOUBLE && hasForeignEscape(node)) {
    throw new YamlFault(offsetOf(node), "has the escape \\/: write / alone");
  }
  if (node.tag === TEXT_TAG || (node.type !== undefined && node.type !== Scalar.PLAIN)) return text;
  const word = WORDS.get(text);
  if (word !== undefined) return word;
  if (NO_NUMBER.test(text)) throw new YamlFault(offsetOf(node), `has ${text}, which is not a number in JSON`);
  return /^[-+.0-9]/.test(text) ? numberOf(node, text) : text;
}

function hasForeignEscape({ srcToken }: Scalar): boolean {
  const source = srcToken !== undefined && "source" in srcToken ? srcToken.source : "";
  return source.replaceAll("\\\\", "").includes("\\/");
}

function numberOf(node: Scalar, text: string): number | string {
  if (/^\.[0-9_]*_/.test(text)) {
    throw new YamlFault(offsetOf(node), `has ${text}: write it without _, or in quotes`);
  }
  const digits = text.replaceAll("_", "");
  const [whole, sign, hex, binary, octal, decimal] = INTEGER.exec(digits) ?? [];
  if (whole === undefined) {
    const number = DECIMAL.test(digits) ? Number(digits) : Number.NaN;
    return Number.isFinite(number) ? number : text;
  }
  const magnitude = Number(
    (hex && `0x${hex}`) ?? (binary && `0b${binary}`) ?? (octal && `0o${octal}`) ?? decimal,
  );
  if (!Number.isSafeInteger(magnitude)) {
    throw new YamlFault(offsetOf(node), `has ${text}, which is beyond 2^53-1: put it in quotes`);
  }
  return sign === "-" && magnitude !== 0 ? -magnitude : magnitude;
}

function offsetOf(node: Node | null | undefined): number {
  return node?.range?.[0] ?? 0;
}
