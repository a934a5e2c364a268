import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { parseSync } from "vite";
import { findMessages } from "./messages.ts";
import { commentBlocks, testName } from "./prose.ts";
import { walk } from "./syntax.ts";

/** `place` is `path:line`, or the path of a page. */
type Piece = { place: string; text: string };

const COUNTS = { comments: 100, "test names": 50, "error messages": 30, pages: 10 };
/** The sample omits comments below this length, which are only labels. */
const SHORTEST_COMMENT = 20;

/** Returns a random sample of the project's English as a questionnaire, the same for each seed. */
export function englishSample(root: string, seed: number): string {
  return Object.entries(piecesOf(root))
    .flatMap(([kind, pieces]) => {
      const drawn = draw(pieces, COUNTS[kind as keyof typeof COUNTS], seed);
      return [
        `## ${kind}`,
        ...drawn.map(({ place, text }, n) => `\n${n + 1}. ${place}\n${text.replace(/^(?=.)/gm, "   ")}`),
        "",
      ];
    })
    .join("\n");
}

function piecesOf(root: string): Record<keyof typeof COUNTS, Piece[]> {
  const sources = globSync(["{src,keyvault,test}/**/*.{ts,mjs}"], { cwd: root })
    .filter((path) => !path.includes("node_modules"))
    .sort()
    .map((path) => {
      const text = readFileSync(join(root, path), "utf8");
      const { program, comments } = parseSync(path, text);
      return { path, text, program, comments };
    });
  const comments = sources.flatMap(({ path, text, comments }) =>
    commentBlocks(text, comments)
      .map(({ line, words }) => ({ place: `${path}:${line}`, text: words.trim() }))
      .filter((piece) => piece.text.length >= SHORTEST_COMMENT),
  );
  const names = sources.flatMap(({ path, program }) =>
    namesIn(program).map((text) => ({ place: path, text })),
  );
  const pages = globSync(["*.md", "docs/**/*.md", "charts/*/README.md"], { cwd: root }).sort();
  return {
    comments,
    "test names": names,
    "error messages": findMessages(root).map(({ path, line, text }) => ({ place: `${path}:${line}`, text })),
    pages: pages.map((place) => ({ place, text: "" })),
  };
}

/** Returns the full test names, as a list of failed tests shows them. */
function namesIn(program: unknown): string[] {
  const calls: { kind: string; text: string; start: number; end: number }[] = [];
  walk(program, (node) => {
    const name = testName(node);
    if (name !== undefined) calls.push({ ...name, start: node.start as number, end: node.end as number });
  });
  return calls
    .filter(({ kind }) => kind !== "describe")
    .map(({ start, end, text }) =>
      [
        ...calls.filter((outer) => outer.start < start && outer.end > end).map((outer) => outer.text),
        text,
      ].join(" > "),
    );
}

function draw(pieces: Piece[], count: number, seed: number): Piece[] {
  const length = Math.min(count, pieces.length);
  const choice = fc.shuffledSubarray(pieces, { minLength: length, maxLength: length });
  return fc.sample(choice, { seed, numRuns: 1 }).flat();
}
