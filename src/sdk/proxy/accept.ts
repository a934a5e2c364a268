import { renameSync, writeFileSync } from "node:fs";
import type { ToolRule } from "../mcp/rules.ts";
import {
  acceptedPart,
  type ListedTool,
  noRules,
  type ProxyRules,
  rulesText,
  toolHash,
} from "./rules_file.ts";
import { suggestRule } from "./suggest.ts";

/** Characters that a terminal does not show, or that move or reverse the text around them. */
const HIDDEN = /[\p{C}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0]/gu;

type Written = Record<string, ToolRule & { hash?: string }>;

/** The result of `--accept`: the new content of the rules file, and one sentence per difference. */
export type Acceptance = { rules: ProxyRules; written: Written; differences: string[] };

/**
 * Accepts the tools that a server lists. Tools with a rule keep it, and get their present hash. New tools get
 * the suggested rule. A tool without a suggestion gets no rule, so it stays refused.
 */
export function acceptTools(
  rules: ProxyRules,
  listed: readonly ListedTool[],
  serverName: unknown,
): Acceptance {
  const written: Written = {};
  const differences: string[] = [];
  for (const tool of listed) {
    const name = shown(tool.name);
    const hash = toolHash(tool);
    const before = Object.hasOwn(rules.written, tool.name) ? rules.written[tool.name] : undefined;
    const rule = before ?? suggestRule(tool);
    if (hash === undefined || rule === undefined || Object.hasOwn(written, tool.name)) {
      differences.push(`${name} gets no rule, so it is refused. Write one if agents should call it.`);
      continue;
    }
    Object.defineProperty(written, tool.name, { value: { ...rule, hash }, enumerable: true });
    const accepted = shown(acceptedPart(tool));
    if (before === undefined) differences.push(`${name} is new: ${JSON.stringify(rule)} for ${accepted}`);
    else if (before.hash !== hash) differences.push(`${name} has changed: ${accepted}`);
  }
  const gone = Object.keys(rules.written).filter((name) => !Object.hasOwn(written, name));
  differences.push(...gone.map((name) => `${shown(name)} is gone, and its rule with it.`));
  const isNew = Object.keys(rules.written).length === 0 && rules.server === noRules().server;
  return { rules: isNew ? { ...rules, server: nameOf(serverName) } : rules, written, differences };
}

/** Writes the rules file, so that no reader sees half of it. */
export function writeRules(file: string, { rules, written }: Acceptance): void {
  const next = `${file}.new`;
  writeFileSync(next, rulesText(rules, written));
  renameSync(next, file);
}

/** A person accepts a tool by what this shows, so its text must not hide anything from them. */
function shown(value: unknown): string {
  return JSON.stringify(value).replace(HIDDEN, (each) => `\\u{${each.codePointAt(0)?.toString(16)}}`);
}

/** Makes the name of a new rules file from the name that the server gives to itself. */
function nameOf(given: unknown): string {
  const text = typeof given === "string" ? given.toLowerCase().replace(/[^a-z0-9]+/g, "-") : "";
  const name = text.replace(/^-+|-+$/g, "").slice(0, 64);
  return name === "" ? noRules().server : name;
}
