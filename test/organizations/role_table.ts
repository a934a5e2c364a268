import { readFileSync, writeFileSync } from "node:fs";
import { type MemberRole, memberRoles } from "../../src/route.ts";
import { declaredRoutes } from "../http/walk/documented.ts";

/** `"person"`: the operation is about the signed-in person. */
export type RoleRow = { operation: string; roles: readonly MemberRole[] | "person" };

const PAGE = new URL("../../docs/organizations.md", import.meta.url);
const HEAD = ["| operation | owner | approver | developer | auditor |", "|---|---|---|---|---|"];

export function declaredTable(): string[] {
  const rows = declaredRoutes
    .filter(({ access }) => access === "session" || access === "account")
    .filter(({ roles }) => roles !== "service_administrator")
    .map(({ id, roles = [] }) => {
      const marks = memberRoles.map((role) =>
        roles === "person" ? "self" : role === "owner" || roles.includes(role) ? "yes" : "–",
      );
      return `| \`${id}\` | ${marks.join(" | ")} |`;
    });
  return [...HEAD, ...rows];
}

export function documentedTable(): string[] {
  const lines = readFileSync(PAGE, "utf8").split("\n");
  const start = lines.indexOf(HEAD[0] ?? "");
  const end = lines.findIndex((line, number) => number > start && !line.startsWith("|"));
  return lines.slice(start, end);
}

export function documentedRows(): RoleRow[] {
  return documentedTable()
    .slice(HEAD.length)
    .map((line) => {
      const [operation = "", ...marks] = line
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.trim());
      const allowed = memberRoles.filter((_, place) => marks[place] === "yes");
      return { operation: operation.replaceAll("`", ""), roles: marks[0] === "self" ? "person" : allowed };
    });
}

/** Writes the declared table into docs/organizations.md. */
export function writeRoleTable(): void {
  const text = readFileSync(PAGE, "utf8");
  writeFileSync(
    PAGE,
    text.replace(documentedTable().join("\n"), () => declaredTable().join("\n")),
  );
}
