import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseSync } from "vite";
import { type Node, walk } from "./syntax.ts";

/** A placeholder in `text` appears as `{expression}`. */
export type Message = { path: string; line: number; text: string };

/** Matches the names of constructors and functions that create errors and refusals. */
const MAKERS =
  /(?:Error|Problem|Refused|Refusal|Fault|Unavailable|Damaged|Missing)$|^(?:refuse|refine|superRefine|regex|problem|fault|wrongType|damaged|rateLimited|obstacle|InvalidArgumentError)$/;
/** Matches the names of tables whose values are messages. */
const TABLES = /^(?:errorCodes|.*(?:Errors|HINTS|MESSAGES|Messages|faults|FAULTS|problems|TEXT|TEXTS))$/;

const SOURCES = ["src/**/*.{ts,mjs}", "keyvault/**/*.ts"];

/** Returns the messages of all source files below `root`, in source order. */
export function findMessages(root: string, sources = SOURCES): Message[] {
  const paths = globSync(sources, { cwd: root })
    .filter((path) => !path.includes("node_modules"))
    .sort();
  return paths.flatMap((path) => messagesOf(path, readFileSync(join(root, path), "utf8")));
}

export function messagesOf(path: string, text: string): Message[] {
  const { program } = parseSync(path, text);
  const found = new Map<number, string>();
  const take = (node: unknown): void =>
    walk(node, (inner) => {
      const message = textOf(inner, text);
      if (message !== undefined && isSentence(message)) found.set(inner.start as number, message);
    });
  walk(program, (node) => {
    if (node.type === "NewExpression" || node.type === "CallExpression") {
      if (MAKERS.test(nameOf(node.callee))) take(node.arguments);
    } else if (node.type === "VariableDeclarator" && TABLES.test(nameOf(node.id))) take(node.init);
  });
  const lineAt = (place: number) => text.slice(0, place).split("\n").length;
  return [...found]
    .sort(([a], [b]) => a - b)
    .map(([place, message]) => ({ path, line: lineAt(place), text: message }));
}

export async function printMessages(root: string): Promise<void> {
  for (const { path, line, text } of findMessages(root)) process.stdout.write(`${path}:${line}  ${text}\n`);
}

function nameOf(node: unknown): string {
  const { type, name, property } = node as Node;
  if (type === "Identifier") return String(name);
  return type === "MemberExpression" ? nameOf(property) : "";
}

function textOf(node: Node, source: string): string | undefined {
  if (node.type === "Literal") return typeof node.value === "string" ? node.value : undefined;
  if (node.type !== "TemplateLiteral") return undefined;
  const expressions = node.expressions as { start: number; end: number }[];
  const quasis = node.quasis as { value: { cooked: string } }[];
  return quasis
    .map(({ value }, index) => {
      const filled = expressions[index];
      return value.cooked + (filled === undefined ? "" : `{${source.slice(filled.start, filled.end)}}`);
    })
    .join("");
}

/** Checks that a string is a sentence for readers, not a code, a pattern or a path. */
function isSentence(text: string): boolean {
  return /[a-z]{2,} [a-z{]/i.test(text) && !/^(?:select|insert|update|delete|with|create|alter) /i.test(text);
}
