import { parseSync } from "vite";
import { type Node, walk } from "./syntax.ts";

/** Maximum number of words in a sentence. A code span counts as one word. */
const MOST_WORDS = 35;
const PHRASES = /\b(no\s+more|at\s+once|by\s+itself|held\s+against|(is|are|was|were|be)\s+told)\b/gi;
const TEST_NAME = /^(is|are|was|who|what|whose|of|about|that|those)\b/i;
const RELATIVE_CLAUSE = /^(who|what|whose|whom|which|where|those|that)\b/i;
const TEST_FUNCTIONS = new Set(["test", "it", "describe"]);
/** Matches the space between two sentences. The second begins with a capital, code, a bracket or a quote. */
const END_OF_SENTENCE = /(?<=[.?!]["”')\]*_]*)\s+(?=["“'([*_]*[A-Z`\d])/;
const ABBREVIATION = /\b(e\.g|i\.e|etc|vs|cf|No)\.$/;

/** Returns violations of the English style rules that a program can check. */
export function proseViolations(path: string, text: string): string[] {
  if (path.endsWith(".md")) return markdownFaults(text).map((fault) => `${path}:${fault}`);
  if (/\.(ts|mjs)$/.test(path)) return sourceFaults(path, text).map((fault) => `${path}:${fault}`);
  return hashCommentFaults(text).map((fault) => `${path}:${fault}`);
}

function sourceFaults(path: string, text: string): string[] {
  const { program, comments } = parseSync(path, text);
  const lineAt = (start: number) => text.slice(0, start).split("\n").length;
  const faults: string[] = [];
  for (const { line, words, isDocstring } of commentBlocks(text, comments)) {
    if (isDocstring && RELATIVE_CLAUSE.test(words.trim())) {
      faults.push(`${line}: a docstring begins with a relative clause: ${words.trim().slice(0, 60)}`);
    }
    faults.push(...phraseFaults(words, line), ...lengthFaults(words, line));
  }
  walk(program, (node) => {
    for (const name of [testName(node)?.text ?? "", ...namesFromTable(node)]) {
      if (!TEST_NAME.test(name)) continue;
      faults.push(`${lineAt(node.start as number)}: a test name does not begin with its subject: ${name}`);
    }
    const words =
      node.type === "TemplateElement"
        ? (node.value as { raw: string }).raw
        : node.type === "Literal" && typeof node.value === "string"
          ? node.value
          : "";
    if (words.search(PHRASES) !== -1) faults.push(...phraseFaults(words, lineAt(node.start as number)));
  });
  return faults;
}

/** `words` omits comment marks. `line` is the comment's first line. */
export type CommentBlock = { words: string; line: number; isDocstring: boolean };
type Comment = ReturnType<typeof parseSync>["comments"][number];

/** Returns the comments of a file. Consecutive `//` lines form one comment. */
export function commentBlocks(text: string, comments: Comment[]): CommentBlock[] {
  const blocks: CommentBlock[] = [];
  let end = 0;
  for (const comment of comments) {
    const words = comment.value.replace(/^\s*\*+ ?/gm, "");
    const last = blocks.at(-1);
    const goesOn = comment.type === "Line" && /^\n[ \t]*$/.test(text.slice(end, comment.start));
    if (goesOn && last !== undefined && !last.isDocstring) last.words += `\n${words}`;
    else {
      const isDocstring = comment.type === "Block" && comment.value.startsWith("*");
      blocks.push({ words, line: text.slice(0, comment.start).split("\n").length, isDocstring });
    }
    end = comment.end;
  }
  return blocks;
}

/** Returns the name in `test("name", …)`, `describe.skipIf(…)("name", …)` and similar calls. */
export function testName(node: Node): { kind: string; text: string } | undefined {
  if (node.type !== "CallExpression") return undefined;
  let callee = node.callee as Node;
  while (callee.type === "MemberExpression" || callee.type === "CallExpression") {
    callee = (callee.type === "MemberExpression" ? callee.object : callee.callee) as Node;
  }
  const kind = callee.type === "Identifier" ? (callee.name as string) : "";
  if (!TEST_FUNCTIONS.has(kind)) return undefined;
  const [first] = node.arguments as Node[];
  if (first?.type === "Literal" && typeof first.value === "string") return { kind, text: first.value };
  if (first?.type !== "TemplateLiteral") return undefined;
  const parts = first.quasis as { value: { raw: string } }[];
  return { kind, text: parts.map(({ value }) => value.raw).join("…") };
}

/** Returns the names of `test.each([["first", …]])("%s …")` if the table is a literal. */
function namesFromTable(node: Node): string[] {
  const name = testName(node)?.text;
  const table = (node.callee as Node | undefined)?.arguments;
  if (name?.startsWith("%s") !== true || !Array.isArray(table)) return [];
  const rows = ((table[0] as Node | undefined)?.elements as (Node | null)[] | undefined) ?? [];
  return rows.flatMap((row) => {
    const first = row?.type === "ArrayExpression" ? (row.elements as (Node | null)[])[0] : row;
    return typeof first?.value === "string" ? [name.replace("%s", first.value)] : [];
  });
}

function markdownFaults(text: string): string[] {
  const prose = text.replace(/^(```|~~~)[\s\S]*?^\1/gm, (code) => code.replace(/[^\n]/g, ""));
  return [...phraseFaults(prose, 1), ...lengthFaults(prose, 1)];
}

/** Checks comments of YAML, templates, shell scripts and Dockerfiles. */
function hashCommentFaults(text: string): string[] {
  const comments = text.replace(/^(?!\s*#).*$/gm, "").replace(/^\s*#+ ?/gm, "");
  return [...phraseFaults(text, 1), ...lengthFaults(comments, 1)];
}

function phraseFaults(text: string, line: number): string[] {
  return [...text.matchAll(PHRASES)].map(
    ({ 0: phrase, index }) =>
      `${line + text.slice(0, index).split("\n").length - 1}: "${phrase.replace(/\s+/, " ")}"`,
  );
}

function lengthFaults(text: string, line: number): string[] {
  const faults: string[] = [];
  let at = line;
  for (const block of text.split(/(?=\n\s*\n)|(?=\n\s*(?:[-*|#>]|\d+\.)\s*\S)/)) {
    const first = at + (/^\s*/.exec(block)?.[0].split("\n").length ?? 1) - 1;
    for (const cell of block.trimStart().startsWith("|") ? block.split("|") : [block]) {
      for (const sentence of sentencesOf(cell)) {
        const count = sentence.split(" ").filter((word) => /\w/.test(word)).length;
        if (count > MOST_WORDS) {
          faults.push(`${first}: a sentence has ${count} words: ${sentence.trim().slice(0, 60)}`);
        }
      }
    }
    at += block.split("\n").length - 1;
  }
  return faults;
}

function sentencesOf(text: string): string[] {
  const plain = text
    .replace(/`[^`]*`/g, "`code`")
    .replace(/\]\([^)]*\)/g, "]")
    .replace(/\s+/g, " ");
  const sentences: string[] = [];
  for (const part of plain.split(END_OF_SENTENCE)) {
    const last = sentences.at(-1);
    if (last !== undefined && ABBREVIATION.test(last)) sentences[sentences.length - 1] = `${last} ${part}`;
    else sentences.push(part);
  }
  return sentences;
}
