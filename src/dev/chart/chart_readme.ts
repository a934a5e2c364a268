import { isMap, isScalar, type Pair, parseDocument, stringify, type YAMLMap } from "yaml";

type Value = { path: string; preset: string; words: string };

/** A top-level value with all values below it. */
type Section = { name: string; words: string; values: Value[] };

const RULE = /^-{3}.*-{3}$/;
const LINE = { collectionStyle: "flow", lineWidth: 0, flowCollectionPadding: true } as const;

const HEADING = "## Values";

/**
 * Returns the README with a table for each top-level value of `values.yaml` after "## Values". Throws `Error`
 * if the README has no such heading.
 */
export function withValues(readme: string, valuesYaml: string): string {
  const end = readme.indexOf(`${HEADING}\n`);
  const { contents } = parseDocument(valuesYaml);
  if (end === -1 || !isMap(contents)) throw new Error(`The chart's README needs a line "${HEADING}"`);
  const sections = contents.items.map((pair, index) =>
    sectionOf(pair as Pair, index === 0 ? contents.commentBefore : undefined),
  );
  const tables = sections.map(({ name, words, values }) =>
    [
      `### ${name}`,
      ...(words === "" ? [] : ["", escaped(words)]),
      ...["", "| value | default | description |", "|---|---|---|"],
      ...values.map(({ path, preset, words }) => `| \`${path}\` | ${inCode(preset)} | ${inCell(words)} |`),
    ].join("\n"),
  );
  return `${readme.slice(0, end)}${HEADING}\n\n${tables.join("\n\n")}\n`;
}

function sectionOf(pair: Pair, comment: string | null | undefined): Section {
  const name = nameOf(pair);
  const words = commentOf(pair, comment);
  const values = isBlock(pair.value) ? valuesIn(pair.value, name) : [leafOf(pair, name, "")];
  return { name, words, values };
}

/** Returns the values below a map. A map that has its own comment gets a row too. */
function valuesIn(map: YAMLMap, above: string): Value[] {
  return (map.items as Pair[]).flatMap((pair, index) => {
    const path = `${above}.${nameOf(pair)}`;
    const words = commentOf(pair, index === 0 ? map.commentBefore : undefined);
    if (!isBlock(pair.value)) return [leafOf(pair, path, words)];
    return [...(words === "" ? [] : [{ path, preset: "", words }]), ...valuesIn(pair.value, path)];
  });
}

function leafOf(pair: Pair, path: string, words: string): Value {
  return { path, preset: stringify(pair.value, LINE).trim(), words };
}

function isBlock(value: unknown): value is YAMLMap {
  return isMap(value) && value.flow !== true;
}

function nameOf({ key }: Pair): string {
  return String(isScalar(key) ? key.value : key);
}

/** Returns a value's comment without lines that only name a section. */
function commentOf({ key, value }: Pair, above: string | null | undefined): string {
  const before = isScalar(key) ? key.commentBefore : undefined;
  const behind = isScalar(value) ? value.comment : undefined;
  const last = (text: string | null | undefined) => (text ?? "").split(/\n\s*\n/).at(-1) ?? "";
  return [last(above), last(before), behind ?? ""]
    .flatMap((text) => text.split("\n"))
    .map((line) => line.trim())
    .filter((line) => line !== "" && !RULE.test(line))
    .join(" ");
}

function inCode(text: string): string {
  return text === "" ? "" : `\`${text.replaceAll("|", "\\|")}\``;
}

function inCell(text: string): string {
  return escaped(text).replaceAll("|", "\\|");
}

/** Escapes text such as `<host>`, which Markdown would treat as HTML. */
function escaped(text: string): string {
  return text.replaceAll("<", "&lt;");
}
