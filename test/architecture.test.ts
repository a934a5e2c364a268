import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { LATER_WORDS, type SourceFile, strangersAtTop, violations } from "./support/architecture.ts";

const ROOT = join(import.meta.dirname, "..");
const TEXT = /\.(ts|mts|mjs|js|json|ya?ml|md|sh|tpl|html|css)$|(^|\/)(run|Dockerfile)$/;

function projectFiles(): SourceFile[] {
  const folders = ["src", "keyvault", "test", "crds", "charts", "docs", ".ci"].filter((folder) =>
    existsSync(join(ROOT, folder)),
  );
  const paths = folders.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && TEXT.test(entry.name))
      .map((entry) => join(entry.parentPath, entry.name).slice(ROOT.length + 1)),
  );
  return paths.map((path) => ({ path, text: readFileSync(join(ROOT, path), "utf8") }));
}

describe("the project", () => {
  test("keeps the house rules", () => {
    const files = projectFiles();
    expect(files.map(({ path }) => path)).toEqual(
      expect.arrayContaining(["src/main.ts", "keyvault/main.ts", ".ci/run"]),
    );
    expect(violations(files)).toEqual([]);
  });

  test("has only expected files and folders at its top level", () => {
    expect(strangersAtTop(readdirSync(ROOT))).toEqual([]);
  });
});

describe("the check of the house rules", () => {
  function found(path: string, text: string, ...others: SourceFile[]): string[] {
    return violations([{ path, text }, ...others]);
  }
  const reading = (specifier: string) => `import { a } from "${specifier}";`;

  test.each([
    ["src/proofs/verify.ts", "../protocol/verify.ts"],
    ["src/proofs/verify.ts", "../db/pool.ts"],
    ["src/proofs/verify.ts", "../clock.ts"],
    ["src/proofs/verify.ts", "../history/append.ts"],
    ["src/proofs/verify.ts", "./batch.ts"],
    ["src/http/app.ts", "../proofs/verify.ts"],
    ["src/main.ts", "./http/app.ts"],
    ["src/dev/dev.ts", "../http/app.ts"],
    ["src/vault/client.ts", "../protocol/hybrid.ts"],
    ["src/operator/reconcile/agent.ts", "../../protocol/scopes.ts"],
    ["src/operator/api_client.ts", "../operator_calls.ts"],
    ["src/platforms/declared/operator_routes.ts", "../../operator_calls.ts"],
    ["keyvault/sign/challenge.ts", "../../src/protocol/hybrid.ts"],
    ["keyvault/sign/challenge.ts", "../clock.ts"],
  ])("lets %s import %s", (path, specifier) => {
    expect(found(path, reading(specifier))).toEqual([]);
  });

  test.each([
    ["src/protocol/verify.ts", "../clock.ts"],
    ["src/protocol/verify.ts", "../db/pool.ts"],
    ["src/clock.ts", "./db/pool.ts"],
    ["src/operator_calls.ts", "./platforms/platform.ts"],
    ["src/operator_calls.ts", "./operator/kinds.ts"],
    ["src/db/pool.ts", "../proofs/verify.ts"],
    ["src/db/pool.ts", "../vault/client.ts"],
    ["src/vault/client.ts", "../db/pool.ts"],
    ["src/proofs/verify.ts", "../http/app.ts"],
    ["src/proofs/verify.ts", "../main.ts"],
    ["src/proofs/verify.ts", "../dev/dev.ts"],
    ["src/http/app.ts", "../operator/run.ts"],
    ["src/http/app.ts", "../dev/dev.ts"],
    ["src/operator/operator.ts", "../db/pool.ts"],
    ["src/operator/operator.ts", "../vault/client.ts"],
    ["src/operator/operator.ts", "../platforms/platform.ts"],
    ["src/events/relay.ts", "../vault/client.ts"],
    ["src/sdk/guard.ts", "../config.ts"],
    ["src/main.ts", "../keyvault/serve.ts"],
    ["src/protocol/verify.ts", "../../test/support/clock.ts"],
    ["src/surprise/new.ts", "../protocol/verify.ts"],
    ["keyvault/serve.ts", "../src/clock.ts"],
    ["keyvault/serve.ts", "../src/vault/client.ts"],
    ["keyvault/serve.ts", "../test/support/clock.ts"],
  ])("does not let %s import %s", (path, specifier) => {
    expect(found(path, reading(specifier))).toEqual([expect.stringContaining(`${path} imports `)]);
  });

  test.each([
    'import "../db/pool.ts";',
    'import type { Pool } from "../db/pool.ts";',
    'import {\n  a,\n  b,\n} from "../db/pool.ts";',
    'export { a } from "../db/pool.ts";',
    'export * from "../db/pool.ts";',
    'const pool = await import("../db/pool.ts");',
    'type Pool = import("../db/pool.ts").Pool;',
  ])("sees the import in %j", (text) => {
    expect(found("src/protocol/verify.ts", text)).toEqual([
      "src/protocol/verify.ts imports src/db/pool.ts: it is in a higher layer",
    ]);
  });

  test("ignores a string or comment that only looks like an import", () => {
    const text = '// import "../db/pool.ts"\nconst example = \'import "../db/pool.ts"\';';
    expect(found("src/protocol/verify.ts", text)).toEqual([]);
  });

  const importing = (path: string, ...specifiers: string[]) => ({
    path,
    text: specifiers.map((specifier) => `import { a } from "${specifier}";`).join("\n"),
  });
  const importingTypes = (path: string, specifier: string) => ({
    path,
    text: `import type { A } from "${specifier}";`,
  });

  test.each([
    ["a type", 'import type { A } from "./a.ts";'],
    ["an inline type", 'import { type A } from "./a.ts";'],
    ["a value", 'import { a } from "./a.ts";'],
    ["an exported type", 'export type { A } from "./a.ts";'],
    ["the type of a module", 'export type A = import("./a.ts").A;'],
  ])("reports a cycle of files closed by %s", (_, text) => {
    const files = [importing("src/proofs/a.ts", "./b.ts"), { path: "src/proofs/b.ts", text }];
    expect(violations(files)).toEqual([
      "import cycle of files: src/proofs/a.ts -> src/proofs/b.ts -> src/proofs/a.ts",
    ]);
    expect(violations(files.slice(0, 1))).toEqual([]);
  });

  test("reports a file that imports itself", () => {
    expect(violations([importing("src/proofs/a.ts", "./a.ts")])).toEqual([
      "import cycle of files: src/proofs/a.ts -> src/proofs/a.ts",
    ]);
  });

  test("reports only the shortest of several cycles that share a file", () => {
    const files = [
      importing("src/proofs/a.ts", "./b.ts"),
      importing("src/proofs/b.ts", "./c.ts"),
      importing("src/proofs/c.ts", "./d.ts", "./a.ts"),
      importing("src/proofs/d.ts", "./a.ts", "./c.ts"),
    ];
    expect(violations(files)).toEqual([
      "import cycle of files: src/proofs/c.ts -> src/proofs/d.ts -> src/proofs/c.ts",
    ]);
  });

  test("reports both of two cycles that share no file, the shorter cycle first", () => {
    const files = [
      importing("src/proofs/a.ts", "./b.ts"),
      importing("src/proofs/b.ts", "./c.ts"),
      importing("src/proofs/c.ts", "./a.ts", "./d.ts"),
      importing("src/proofs/d.ts", "./e.ts"),
      importing("src/proofs/e.ts", "./d.ts"),
    ];
    expect(violations(files)).toEqual([
      "import cycle of files: src/proofs/d.ts -> src/proofs/e.ts -> src/proofs/d.ts",
      "import cycle of files: src/proofs/a.ts -> src/proofs/b.ts -> src/proofs/c.ts -> src/proofs/a.ts",
    ]);
  });

  test("reports the shortest cycle of folders, and also counts imports of types", () => {
    const files = [
      importing("src/proofs/a.ts", "../history/c.ts"),
      importing("src/history/c.ts", "../events/d.ts"),
      importingTypes("src/events/e.ts", "../proofs/b.ts"),
      importingTypes("src/events/f.ts", "../history/g.ts"),
    ];
    expect(violations(files)).toEqual(["import cycle of folders: src/events -> src/history -> src/events"]);
    expect(violations(files.slice(0, 3))).toEqual([
      "import cycle of folders: src/events -> src/proofs -> src/history -> src/events",
    ]);
    expect(violations(files.slice(0, 2))).toEqual([]);
  });

  test("lets a folder and the files next to it import each other", () => {
    const files = [
      importingTypes("src/proofs/decide/b.ts", "../c.ts"),
      importingTypes("src/proofs/c.ts", "./decide/d.ts"),
    ];
    expect(violations(files)).toEqual([]);
  });

  test("lets a folder have 17 files but not 18", () => {
    const files = (count: number, folder: string) =>
      Array.from({ length: count }, (_, number) => ({ path: `${folder}/f${number}.ts`, text: "" }));
    expect(violations(files(17, "src/proofs"))).toEqual([]);
    expect(violations(files(18, "src/proofs"))).toEqual(["src/proofs has 18 files"]);
    expect(violations(files(18, "test/proofs"))).toEqual([]);
  });

  test.each([
    "Date.now()",
    "new Date()",
    "new Date",
    "Date()",
    'Date["now"]()',
    "globalThis.Date.now()",
    "[1].map(Date.now)",
  ])("lets only the files of clocks read the time with %s", (expression) => {
    const text = `export const now = () => ${expression};`;
    expect(found("src/proofs/verify.ts", text)).toEqual(["src/proofs/verify.ts reads the time"]);
    expect(found("keyvault/serve.ts", text)).toEqual(["keyvault/serve.ts reads the time"]);
    expect(found("src/clock.ts", text)).toEqual([]);
    expect(found("keyvault/clock.ts", text)).toEqual([]);
  });

  test("lets any file create a time from a number", () => {
    expect(
      found(
        "src/proofs/verify.ts",
        'new Date(0); Date.parse("x"); Date.UTC(1, 2); "Date.now()"; // Date.now()',
      ),
    ).toEqual([]);
  });

  test.each([
    "process.env.A",
    "process.env",
    'process["env"]',
    "globalThis.process.env.A",
    "({ ...process.env })",
  ])("lets only the files of settings read the environment with %s", (expression) => {
    const text = `export const value = ${expression};`;
    expect(found("src/http/app.ts", text)).toEqual(["src/http/app.ts reads the environment"]);
    expect(found("keyvault/token/child.ts", text)).toEqual(["keyvault/token/child.ts reads the environment"]);
    expect(found("src/config.ts", text)).toEqual([]);
    expect(found("keyvault/config.ts", text)).toEqual([]);
    expect(found("src/dev/setup/packages.mjs", text)).toEqual([]);
  });

  test("reports a file that imports the environment by name", () => {
    expect(found("src/http/app.ts", 'import { env } from "node:process";')).toEqual([
      "src/http/app.ts reads the environment",
    ]);
  });

  test("lets a file have 300 lines but not 301", () => {
    const lines = (count: number) => "export {};\n".repeat(count);
    expect(found("src/http/app.ts", lines(300))).toEqual([]);
    expect(found("src/http/app.ts", lines(301))).toEqual(["src/http/app.ts has 301 lines"]);
    expect(found("keyvault/serve.ts", lines(301))).toEqual(["keyvault/serve.ts has 301 lines"]);
    expect(found("test/http/app.test.ts", lines(301))).toEqual([]);
  });

  test.each(LATER_WORDS.map((word) => `// ${word}: later`))(
    "rejects a comment that postpones work: %j",
    (text) => {
      for (const path of [
        "src/http/app.ts",
        "docs/notes.md",
        "test/http/app.test.ts",
        "charts/deputize/values.yaml",
      ]) {
        expect(found(path, `\n${text}\n`)).toEqual([`${path}:2 contains a note about later work`]);
      }
    },
  );

  test("requires file names in lower case with underscores", () => {
    expect(found("src/http/rateLimit.ts", "")).toEqual([
      "src/http/rateLimit.ts is not in lower case with underscores",
    ]);
    expect(found("src/http/rate_limit.ts", "")).toEqual([]);
  });

  test("reports unexpected files and folders at the top level", () => {
    expect(
      strangersAtTop([
        ...["src", "README.md", ".ci", ".biome.json", "deputize-0.1.0.tgz", "bench-results"],
        ...["notes.txt", "dist", "bench-results.json"],
      ]),
    ).toEqual(["notes.txt", "dist", "bench-results.json"]);
  });
});
