import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseSync } from "vite";
import { describe, expect, test } from "vitest";
import { IMAGES } from "../../src/dev/images/build.ts";
import { type Node, walk } from "../support/syntax.ts";

const ROOT = join(import.meta.dirname, "../..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");

/** The Dockerfile's instructions, each joined into one line. */
const INSTRUCTIONS = read("Dockerfile")
  .split("\n")
  .filter((line) => !line.startsWith("#"))
  .join("\n")
  .replaceAll(/\\\n\s*/g, "")
  .split("\n")
  .filter((line) => line !== "");

const STAGES = new Map<string, string[]>();
for (const line of INSTRUCTIONS) {
  const [, name] = /^FROM \S+ AS (\S+)$/.exec(line) ?? [];
  if (name !== undefined) STAGES.set(name, []);
  [...STAGES.values()].at(-1)?.push(line);
}

const words = (line: string) => line.split(/\s+/).slice(1);
const ALLOWED = read(".dockerignore")
  .split("\n")
  .filter((line) => line.startsWith("!"));

describe("the Dockerfile", () => {
  const fromContext = INSTRUCTIONS.filter((line) => line.startsWith("COPY ") && !line.includes("--from="));
  const sources = fromContext.flatMap((line) => words(line).slice(0, -1));

  test.each(sources)("copies %s, which exists and is part of the build context", (source) => {
    expect(existsSync(join(ROOT, source))).toBe(true);
    expect(ALLOWED).toContain(`!${source.split("/")[0]}`);
  });

  test("allows exactly the copied files in the build context, and no installed packages", () => {
    expect(ALLOWED.map((line) => line.slice(1)).sort()).toEqual(
      [...new Set(sources.map((each) => each.split("/")[0]))].sort(),
    );
    expect(read(".dockerignore").split("\n")).toEqual(expect.arrayContaining(["*", "**/node_modules"]));
  });

  test("starts every stage from the base image in the BASE argument", () => {
    const bases = [...STAGES.values()].map(([from = ""]) => words(from)[0] ?? "");
    const strange = bases.filter((base) => base !== "scratch" && base !== `\${BASE}` && !STAGES.has(base));
    expect(strange).toEqual([]);
    expect(INSTRUCTIONS.filter((line) => line.startsWith("ARG "))).toEqual(["ARG BASE"]);
  });

  test.each(IMAGES.map(({ target }) => target))(
    "gives %s an unprivileged user, no health check and one entry point",
    (target) => {
      const stage = STAGES.get(target) ?? [];
      expect(words(stage[0] ?? "")).toEqual(["scratch", "AS", target]);
      expect(stage).toEqual(expect.arrayContaining(["USER 10001:10001", "HEALTHCHECK NONE", "WORKDIR /app"]));
      expect(stage.filter((line) => /^(RUN|ADD|VOLUME|EXPOSE|CMD) /.test(line))).toEqual([]);
      expect(stage.filter((line) => line.startsWith("ENTRYPOINT "))).toEqual([
        expect.stringMatching(/\["[a-z-]+"\]$/),
      ]);
    },
  );

  test("builds deputize by default", () => {
    expect([...STAGES.keys()].at(-1)).toBe("deputize");
  });
});

/** Returns the packages that these files load, by import or by `import.meta.resolve`. */
function packagesOf(globs: string[], exclude: RegExp): string[] {
  const found = new Set<string>();
  for (const path of globSync(globs, { cwd: ROOT }).filter((each) => !exclude.test(each))) {
    walk(parseSync(path, read(path)).program, (node) => {
      const name = packageIn(node);
      if (name !== undefined) found.add(name);
    });
  }
  return [...found].sort();
}

function packageIn(node: Node): string | undefined {
  const isType = node.importKind === "type" || node.exportKind === "type";
  const source = sourceOf(node)?.value;
  if (isType || typeof source !== "string" || /^(\.|node:)/.test(source)) return undefined;
  return /^(?:@[^/]+\/)?[^/]+/.exec(source)?.[0];
}

type Literal = { value?: unknown } | null | undefined;

function sourceOf(node: Node): Literal {
  if (/^(Import|Export(Named|All))(Declaration|Expression)$/.test(node.type)) return node.source as Literal;
  if (node.type !== "CallExpression") return undefined;
  const callee = node.callee as { object?: { type: string }; property?: { name: string } };
  const isResolve = callee.object?.type === "MetaProperty" && callee.property?.name === "resolve";
  return isResolve ? (node.arguments as Literal[])[0] : undefined;
}

test.each([
  { workspace: "src", globs: ["src/**/*.ts"], exclude: /^src\/(dev|plugin|sdk)\/|node_modules/ },
  { workspace: "keyvault", globs: ["keyvault/**/*.ts", "src/protocol/**/*.ts"], exclude: /node_modules/ },
])(
  "$workspace lists the packages that its image's sources import, and no others",
  ({ workspace, globs, exclude }) => {
    const { dependencies } = JSON.parse(read(`${workspace}/package.json`));
    expect(packagesOf(globs, exclude)).toEqual(Object.keys(dependencies).sort());
  },
);
