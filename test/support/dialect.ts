import { parseSync } from "vite";
import { type Node, walk } from "./syntax.ts";

/** The maximum width of comments, as of code in `.biome.json`. */
const WIDTH = 110;
const COMMENT = /^\s*(\/\/|\/\*\*|\*)/;
const THROWS_TAG = /^\s*(\/\*\*|\*).*@throws/;
const UPPER_CASE_SQL =
  /\b(SELECT( [a-z*(]|$)|INSERT INTO|DELETE FROM|UPDATE [a-z]\w* SET|CREATE TABLE|ALTER TABLE|ORDER BY|FROM [a-z]|WHERE [a-z]|set LOCAL|IN \()/m;
/** Ignores quoted text, since Postgres reports statements in their original case. */
const QUOTED = /'[^']*'/g;

/** Other text contains neither a body without braces nor upper-case SQL, so it is not parsed. */
const MAY_DEPART =
  /^[\s}]*((else\b.*)?(if|for|while)\b.*\)|else|\))\s*(\/[/*].*)?$|\b(SELECT|INSERT|DELETE|UPDATE|CREATE|ALTER|ORDER|FROM|WHERE|LOCAL|IN)\b/m;

/**
 * Returns violations of style rules that Biome cannot check: braces around a body on a separate line, SQL in
 * lower case, "Throws" as a word instead of a tag, and the width of comments.
 */
export function dialectViolations(path: string, text: string): string[] {
  const faults: string[] = [];
  const say = (line: number, fault: string) => void faults.push(`${path}:${line}: ${fault}`);
  for (const [n, line] of text.split("\n").entries()) {
    if (COMMENT.test(line) && line.length > WIDTH && line.includes(" ", line.length - WIDTH)) {
      say(n + 1, `comment is wider than ${WIDTH} characters`);
    }
    if (THROWS_TAG.test(line)) say(n + 1, "write Throws `Error`, not @throws");
  }
  if (!MAY_DEPART.test(text)) return faults;
  const lineAt = (node: Node) => text.slice(0, node.start as number).split("\n").length;
  walk(parseSync(path, text).program, (node) => {
    for (const body of bodiesOf(node)) {
      if (/\n\s*$/.test(text.slice(0, body.start as number))) say(lineAt(body), "body without braces");
    }
    if (isUpperCaseSql(node)) say(lineAt(node), "write SQL in lower case");
  });
  return faults;
}

function bodiesOf(node: Node): Node[] {
  const bodies =
    node.type === "IfStatement"
      ? [node.consequent, node.alternate]
      : /^(For|While)/.test(node.type)
        ? [node.body]
        : [];
  return (bodies as (Node | null)[]).filter(
    (body): body is Node => body !== null && body.type !== "BlockStatement" && body.type !== "IfStatement",
  );
}

function isUpperCaseSql(node: Node): boolean {
  const sql =
    node.type === "TemplateElement"
      ? (node.value as { raw: string }).raw
      : node.type === "Literal" && node.value;
  return typeof sql === "string" && UPPER_CASE_SQL.test(sql.replace(QUOTED, ""));
}
