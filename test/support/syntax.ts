export type Node = { type: string } & Record<string, unknown>;

/** Visits every node of a tree, parents first. */
export function walk(value: unknown, visit: (node: Node) => void): void {
  if (Array.isArray(value)) {
    for (const item of value) {
      walk(item, visit);
    }
  } else if (typeof value === "object" && value !== null) {
    if ("type" in value && typeof value.type === "string") {
      visit(value as Node);
    }
    for (const part of Object.values(value)) {
      walk(part, visit);
    }
  }
}
