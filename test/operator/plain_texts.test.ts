import { beforeAll, describe, expect, test } from "vitest";
import { declaredFields } from "../../src/input/declared_fields.ts";
import { isPlainLine, isPlainText } from "../../src/input/plain_text.ts";
import { readDefinitions, type StructuralSchema } from "../../src/operator/schema/read_crds.ts";

type TextRow = [kind: string, path: string, isTaken: (text: string) => boolean];

/** Every human-readable text field in the definitions, and the API's own check of that field. */
const texts: TextRow[] = [
  ["Platform", "spec.displayName", isPlainLine],
  ["Platform", "spec.description", isFreeText],
  ["Agent", "spec.displayName", isPlainLine],
  ["Delegation", "spec.revokeReason", isPlainText],
  ...Object.values(declaredFields).map((field): TextRow => ["Delegation", `spec.${field.spec}`, isPlainLine]),
  ["Delegation", "status.approval.approver.username", isPlainLine],
  ["Delegation", "status.approval.message", isFreeText],
  ["Delegation", "spec.constraints.resource_id", isPlainLine],
  ["Delegation", "spec.constraints.path_prefix", isPlainLine],
];

/**
 * Characters that are compared separately: unassigned ones, and those allowed only in some positions.
 */
const APART = /[\u200c-\u200d]|\u3000|[\ufe00-\ufe0f]|[\u{e0100}-\u{e01ef}]|\p{Cn}/u;

function isFreeText(text: string): boolean {
  return isPlainText(text) && !/[^\P{Cc}\t\n\r]/u.test(text);
}

let definitions: Awaited<ReturnType<typeof readDefinitions>>;
beforeAll(async () => {
  definitions = await readDefinitions();
});

function patternOf(kind: string, path: string): RegExp {
  const top = definitions.find((definition) => definition.kind === kind)?.schema;
  const node = path
    .split(".")
    .reduce<StructuralSchema | undefined>(
      (schema, name) => (schema?.items ?? schema)?.properties?.[name],
      top,
    );
  const [{ rule } = { rule: "" }] = node?.["x-kubernetes-validations"] ?? [];
  const [, pattern = "the rule has no pattern"] = /^self\.matches\(r'(.*)'\)$/su.exec(rule) ?? [];
  return new RegExp(pattern, "u");
}

/** Cache, because several fields share a pattern. */
const differences = new Map<string, string[]>();
function differingCharacters(
  pattern: RegExp,
  isTaken: (text: string) => boolean,
  { start, isSingleLine }: { start: string; isSingleLine: boolean },
): string[] {
  const key = `${start} ${isSingleLine} ${isTaken.name} ${pattern.source}`;
  const known = differences.get(key);
  if (known !== undefined) return known;
  const differing: string[] = [];
  for (let point = 0; point <= 0x10ffff; point += 1) {
    const character = String.fromCodePoint(point);
    if (APART.test(character) || (point >= 0xd800 && point <= 0xdfff) || character === "\\") continue;
    const text = `${start}a${character}b`;
    const mayBeTaken = !isSingleLine || !/\p{Cc}/u.test(character);
    if (pattern.test(text) !== (isTaken(text) && mayBeTaken)) differing.push(point.toString(16));
  }
  differences.set(key, differing);
  return differing;
}

describe.each(texts)("a %s's %s", (kind, path, isTaken) => {
  const start = path.endsWith("path_prefix") ? "/" : "";

  test("allows the same characters in the CustomResourceDefinition as in the API", () => {
    const pattern = patternOf(kind, path);
    const isSingleLine = path.endsWith("revokeReason");
    expect(differingCharacters(pattern, isTaken, { start, isSingleLine })).toEqual([]);
  });

  test("allows the same combining marks in the CustomResourceDefinition as in the API", () => {
    const pattern = patternOf(kind, path);
    const marks = (count: number) => "\u0301".repeat(count);
    for (const text of [
      `a${marks(4)}b`,
      `a${marks(5)}b`,
      `a ${marks(1)}b`,
      "a  b c",
      `ф${marks(4)}ы${marks(4)}`,
    ]) {
      expect([text, pattern.test(start + text)]).toEqual([text, isTaken(start + text)]);
    }
  });
});
