import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { readDefinitions, type StructuralSchema } from "../../src/operator/schema/read_crds.ts";

function pathsOf(schema: StructuralSchema, path: string): string[] {
  const own = Object.entries(schema.properties ?? {}).flatMap(([name, property]) => [
    `${path}.${name}`,
    ...pathsOf(property, `${path}.${name}`),
  ]);
  return schema.items === undefined ? own : [...own, ...pathsOf(schema.items, `${path}[]`)];
}

describe("docs/operator.md", () => {
  test("names every property of the CustomResourceDefinitions", async () => {
    const page = await readFile(new URL("../../docs/operator.md", import.meta.url), "utf8");
    const code = [...page.matchAll(/```[\s\S]*?```|`[^`]+`/g)].flatMap(
      ([text]) => text.match(/[A-Za-z_]\w*/g) ?? [],
    );
    const named = new Set(code);
    const paths = (await readDefinitions()).flatMap(({ kind, schema }) => pathsOf(schema, kind));
    expect(paths.length).toBeGreaterThan(100);
    expect(paths.filter((path) => !named.has(path.split(".").at(-1) ?? ""))).toEqual([]);
  });
});
