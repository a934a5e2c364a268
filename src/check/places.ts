import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseAllDocuments,
} from "yaml";
import { YAML_OPTIONS } from "../operator/folder/documents.ts";

/** A position in a file. Lines and columns count from 1. */
export type Place = { line: number; column: number };

/**
 * Returns where a field such as `spec.scopes[1]` is in a document, which counts from 1. If the document lacks
 * the field, returns where the closest field around it is.
 */
export type Places = (document: number, path: string) => Place;

/** Reads the positions of a file's fields. The file must be readable YAML. */
export function openPlaces(text: string): Places {
  const lineCounter = new LineCounter();
  const parsed = parseAllDocuments(text, { ...YAML_OPTIONS, lineCounter });
  const documents = Array.isArray(parsed) ? parsed : [];
  return (number, path) => {
    const document = documents[number - 1];
    const { line, col } = lineCounter.linePos(document === undefined ? 0 : offsetOf(document, path));
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
}

function offsetOf(document: Document, path: string): number {
  let node = document.contents as Node | null;
  let offset = startOf(node) ?? document.range?.[0] ?? 0;
  let rest = path;
  while (rest !== "") {
    const next = step(isAlias(node) ? node.resolve(document) : node, rest);
    if (next === undefined) return offset;
    offset = next.offset ?? offset;
    node = next.node;
    rest = next.rest.replace(/^\./, "");
  }
  return offset;
}

type Step = { node: Node | null; offset: number | undefined; rest: string };

function step(node: Node | null | undefined, path: string): Step | undefined {
  if (isSeq<Node>(node)) {
    const [whole = "", index] = /^\[(\d+)\]/.exec(path) ?? [];
    const item = index === undefined ? undefined : node.items[Number(index)];
    if (item === undefined) return undefined;
    return { node: item, offset: startOf(item), rest: path.slice(whole.length) };
  }
  if (!isMap<Node, Node | null>(node)) return undefined;
  // Keys may contain dots, so the longest key that fits is the right one.
  const [found] = node.items
    .map(({ key, value }) => ({ key, value, name: isScalar(key) ? String(key.value) : "" }))
    .filter(({ name }) => path === name || path.startsWith(`${name}.`) || path.startsWith(`${name}[`))
    .sort((left, right) => right.name.length - left.name.length);
  if (found === undefined || found.name === "") return undefined;
  return { node: found.value, offset: startOf(found.key), rest: path.slice(found.name.length) };
}

function startOf(node: Node | null | undefined): number | undefined {
  return node?.range?.[0];
}
