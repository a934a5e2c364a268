import { metadataSchema, type StructuralSchema } from "../operator/schema/read_crds.ts";

/** Longer words are no misspellings, and comparing them would take long. */
const MAX_WORD = 64;

/** Returns the candidate that `word` most likely stands for, or `undefined` if none is similar. */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  if (word.length > MAX_WORD) return undefined;
  const wanted = plain(word);
  const [best] = [...candidates]
    .map((candidate) => ({ candidate, distance: distance(wanted, plain(candidate)) }))
    .filter(({ candidate, distance }) => distance <= Math.max(1, Math.floor(candidate.length / 3)))
    .sort((left, right) => left.distance - right.distance);
  return best?.candidate;
}

function plain(word: string): string {
  return word.toLowerCase().replaceAll(/[-_]/g, "");
}

/**
 * Returns how many insertions, deletions, replacements and swaps of neighbors turn one word into the other
 * (optimal string alignment).
 */
function distance(left: string, right: string): number {
  let former: number[] = [];
  let row = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let i = 1; i <= left.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= right.length; j += 1) {
      const cost = left[i - 1] === right[j - 1] ? 0 : 1;
      const isSwap = i > 1 && j > 1 && left[i - 1] === right[j - 2] && left[i - 2] === right[j - 1];
      next[j] = Math.min(
        at(row, j) + 1,
        at(next, j - 1) + 1,
        at(row, j - 1) + cost,
        isSwap ? at(former, j - 2) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    former = row;
    row = next;
  }
  return at(row, right.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY;
}

/**
 * Returns the field of a kind that an unknown field most likely stands for: a similar name at the same place,
 * or else the path of a field with exactly this name elsewhere.
 */
export function nearestField(schema: StructuralSchema, path: string): string | undefined {
  const root = withMetadata(schema);
  const { names, unknown } = walk(root, path);
  return nearest(unknown, names) ?? placesOf(root, unknown, "")[0];
}

function withMetadata(schema: StructuralSchema): StructuralSchema {
  const metadata = metadataSchema as unknown as StructuralSchema;
  return { ...schema, properties: { ...schema.properties, metadata } };
}

/** Follows a path as far as the schema knows it. */
function walk(schema: StructuralSchema, path: string): { names: string[]; unknown: string } {
  let node: StructuralSchema = schema;
  let rest = path;
  for (;;) {
    const item = /^\[\d+\]\.?/.exec(rest)?.[0];
    const name = /^[^.[]+/.exec(rest)?.[0] ?? "";
    const child = item === undefined ? memberOf(node, name) : node.items;
    if (child === undefined) return { names: Object.keys(node.properties ?? {}), unknown: rest };
    node = child;
    rest = rest.slice((item ?? name).length).replace(/^\./, "");
  }
}

function memberOf({ properties = {} }: StructuralSchema, name: string): StructuralSchema | undefined {
  return Object.hasOwn(properties, name) ? properties[name] : undefined;
}

function placesOf({ properties = {} }: StructuralSchema, name: string, above: string): string[] {
  return Object.entries(properties)
    .filter(([member]) => !SERVER_FIELDS.has(`${above}${member}`))
    .flatMap(([member, child]) => [
      ...(member === name ? [`${above}${member}`] : []),
      ...placesOf(child, name, `${above}${member}.`),
    ]);
}

/** Fields that manifests do not have. */
const SERVER_FIELDS = new Set(["status"]);
