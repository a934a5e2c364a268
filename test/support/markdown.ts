import { readFile } from "node:fs/promises";

const ROOT = new URL("../../", import.meta.url);

/** `heading` is the heading above the code block. */
export type CodeBlock = { heading: string; language: string; code: string };

/** Returns a page's code blocks in order, or only those below `heading`. */
export async function codeBlocks(page: string, heading?: string): Promise<CodeBlock[]> {
  const text = await readFile(new URL(page, ROOT), "utf8");
  const blocks = text.split(/^#+ /m).flatMap((section) => {
    const [title = ""] = section.split("\n", 1);
    const found = [...section.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)];
    return found.map(([, language = "", code = ""]) => ({ heading: title, language, code }));
  });
  return blocks.filter((block) => heading === undefined || block.heading === heading);
}

export function anchorsOf(page: string): string[] {
  return [...page.matchAll(/^#{1,6} (.*)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, "")
      .replaceAll(" ", "-"),
  );
}
