/**
 * YAML below `spec:` and the value that kubectl reads. Without `spec`, kubectl refuses the YAML. With
 * `onlyFolderRefuses`, the folder refuses it because the folder would read a different value.
 */
export type YamlCase = { name: string; text: string; spec?: unknown; onlyFolderRefuses?: true };

const scalars: [text: string, value: unknown][] = [
  ["0100", 64],
  ["+0100", 64],
  ["-0100", -64],
  ["0o100", 64],
  ["0O17", 15],
  ["08", 8],
  ["0_100", 64],
  ["1_000", 1000],
  ["1__0", 10],
  ["0x1F", 31],
  ["0X1f", 31],
  ["+0x1f", 31],
  ["0b11", 3],
  ["-0b11", -3],
  ["+12", 12],
  ["-0", 0],
  ["1.", 1],
  [".5", 0.5],
  ["+.5", 0.5],
  ["1.0", 1],
  ["1e3", 1000],
  ["1E3", 1000],
  ["1e-300", 1e-300],
  ["9007199254740991", 9007199254740991],
  ["1e400", "1e400"],
  ["0x1p3", "0x1p3"],
  ["1:30", "1:30"],
  ["09:00", "09:00"],
  ["2030-01-31", "2030-01-31"],
  ["2030-01-31T12:00:00Z", "2030-01-31T12:00:00Z"],
  ["2030-01-31 12:00:00", "2030-01-31 12:00:00"],
  ["y", true],
  ["YES", true],
  ["on", true],
  ["True", true],
  ["tRUE", "tRUE"],
  ["n", false],
  ["No", false],
  ["off", false],
  ["FALSE", false],
  ["~", null],
  ["Null", null],
  ["", null],
  ["nULL", "nULL"],
  [".", "."],
  ["+", "+"],
  ["=", "="],
  [".infinity", ".infinity"],
  ["a b#c", "a b#c"],
  ['"0100"', "0100"],
  ["'yes'", "yes"],
  ["!!str 0100", "0100"],
  ['"\\u0645\\x41\\n"', "\u0645A\n"],
];

const structures: YamlCase[] = [
  { name: "reads a block as text", text: "  a: |\n    0100\n", spec: { a: "0100\n" } },
  { name: "reads a folded block", text: "  a: >-\n    b\n    c\n", spec: { a: "b c" } },
  { name: "reads a list", text: "  a: [0100, yes, {b: on}]\n", spec: { a: [64, true, { b: true }] } },
  {
    name: "merges keys, and prefers the object's own keys",
    text: "  a: &a {b: 1, c: 2}\n  d: {<<: *a, b: 3}\n",
    spec: { a: { b: 1, c: 2 }, d: { b: 3, c: 2 } },
  },
  {
    name: "merges lists of objects, and prefers the first object",
    text: "  a: &a {b: 1}\n  c: &c {b: 2, d: 010}\n  e:\n    <<: [*a, *c]\n",
    spec: { a: { b: 1 }, c: { b: 2, d: 8 }, e: { b: 1, d: 8 } },
  },
  { name: "reads a merge key in quotes as a plain key", text: '  "<<": {b: 1}\n', spec: { "<<": { b: 1 } } },
  { name: "resolves an alias", text: "  a: &a 0100\n  b: *a\n", spec: { a: 64, b: 64 } },
  { name: "reads a key in quotes as text", text: '  "yes": 1\n', spec: { yes: 1 } },
];

const refused: YamlCase[] = [
  { name: "refuses infinity", text: "  a: .inf\n" },
  { name: "refuses NaN", text: "  a: .NaN\n" },
  { name: "refuses an alias inside its own anchor", text: "  a: &a\n    b: *a\n" },
  { name: "refuses an alias without an anchor", text: "  a: *b\n" },
  { name: "refuses an escaped slash", text: '  a: "\\/"\n' },
  { name: "refuses a number beyond 2^53-1", text: "  a: 9007199254740992\n", onlyFolderRefuses: true },
  { name: "refuses a fraction with _", text: "  a: .5_0\n", onlyFolderRefuses: true },
  { name: "refuses a fraction that begins with _", text: "  a: ._5\n", onlyFolderRefuses: true },
  { name: "refuses a key that is a boolean", text: "  yes: 1\n", onlyFolderRefuses: true },
  { name: "refuses a key that is a number", text: "  0100: 1\n", onlyFolderRefuses: true },
  {
    name: "refuses a merge key after other keys",
    text: "  a: &a {b: 1}\n  d: {b: 3, <<: *a}\n",
    onlyFolderRefuses: true,
  },
  {
    name: "refuses a second merge key",
    text: "  a: &a {b: 1}\n  d:\n    <<: *a\n    <<: {b: 3}\n",
    onlyFolderRefuses: true,
  },
  { name: "refuses a tag", text: '  a: !!int "3"\n', onlyFolderRefuses: true },
  { name: "refuses a custom tag", text: "  a: !b {c: 1}\n", onlyFolderRefuses: true },
  { name: "refuses the end of a document", text: "  a: 1\n...\n", onlyFolderRefuses: true },
  { name: "refuses a line break of YAML 1.1", text: "  a: b\u2028c\n" },
  { name: "refuses text after ---", text: "  a: 1\n--- {b: 1}\n", onlyFolderRefuses: true },
];

export const yamlCases: YamlCase[] = [
  ...scalars.map(([text, value]) => ({
    name: `reads ${JSON.stringify(text)}`,
    text: `  a: ${text}\n`,
    spec: { a: value },
  })),
  ...structures,
  ...refused,
];

export function manifestOf({ text }: YamlCase, name: string): string {
  return `apiVersion: test.deputize.io/v1\nkind: Thing\nmetadata: {name: ${name}}\nspec:\n${text}`;
}
