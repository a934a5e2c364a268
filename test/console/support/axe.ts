import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";
import { drawn } from "./window.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** The result of these rules depends on colors. Every other rule has the same result in each theme. */
export const COLOR_RULES = ["color-contrast", "link-in-text-block"];

/** Returns axe's findings. Without `rules`, checks the rules of WCAG 2.2 AA and best practices. */
export async function violations(page: Page, rules?: readonly string[]): Promise<string[]> {
  await drawn(page);
  await page.evaluate(`if (globalThis.axe === undefined) { ${AXE} }`);
  const found = await page.evaluate<{ id: string; nodes: { html: string }[] }[]>(
    `axe.run(${JSON.stringify({ resultTypes: ["violations"], ...(rules && { runOnly: rules }) })})
       .then(({ violations }) => violations)`,
  );
  return found.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html}`));
}
