import { readFile } from "node:fs/promises";

const ROOT = new URL("../../", import.meta.url);

/** A block of code of a page: its language, and its text. */
export type CodeBlock = { language: string; code: string };

/** The blocks of code below a heading of a page of this project, in order; of the whole page without one. */
export async function codeBlocks(page: string, heading?: string): Promise<CodeBlock[]> {
  const text = await readFile(new URL(page, ROOT), "utf8");
  const sections = heading === undefined ? [text] : text.split(/^#+ (?=\S.*$)/m);
  const section = sections.find((part) => heading === undefined || part.startsWith(`${heading}\n`));
  const found = [...(section ?? "").matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)];
  return found.map(([, language = "", code = ""]) => ({ language, code }));
}
