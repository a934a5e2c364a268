import { existsSync, globSync, readFileSync, statSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const TOP = new URL("..", import.meta.url);
const read = (path: string) => readFileSync(new URL(path, TOP), "utf8");

/** Pages that describe the project as it is. Decisions and the change log describe the past. */
const PAGES = [
  "README.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  ...globSync("docs/*.md", { cwd: fileURLToPath(TOP) }),
];

const named = (page: string) =>
  [...read(page).matchAll(/`((?:src|keyvault|test|crds|charts|docs|\.ci)\/[^`\s]*)`/g)]
    .map(([, path = ""]) => path)
    .filter((path) => !/[<*]/.test(path));

test.each(PAGES)("%s names only files and folders that exist", (page) => {
  expect(named(page).filter((path) => !existsSync(new URL(path, TOP)))).toEqual([]);
});

test("the check of pages finds the names of files and folders", () => {
  expect(named("docs/architecture.md").length).toBeGreaterThan(60);
  expect(named("CONTRIBUTING.md").length).toBeGreaterThan(30);
});

test('docs/production.md names a test in each row of its table "What happens when …"', () => {
  const [, section = ""] = read("docs/production.md").split("## What happens when …");
  const rows = (section.split("\n## ")[0] ?? "").split("\n").filter((line) => line.startsWith("| "));
  expect(rows.length).toBeGreaterThan(10);
  expect(rows.slice(1).filter((row) => !/\| `test\/\S+\.test\.ts` \|$/.test(row))).toEqual([]);
});

test("docs/decisions/README.md links every decision by its number and title, in order", () => {
  const links = globSync("docs/decisions/0*.md", { cwd: fileURLToPath(TOP) })
    .sort()
    .map((path) => read(path).replace(/^# (\d+)\. (.*)\n[\s\S]*$/, `| $1 | [$2](${posix.basename(path)}) |`));
  const index = read("docs/decisions/README.md");
  expect([...index.matchAll(/^\| \d+ \| \[.*?\]\(.*?\) \|/gm)].map(([link]) => link)).toEqual(links);
});

describe("docs/architecture.md", () => {
  const journeys = read("docs/architecture.md")
    .split("\n## ")
    .filter((section) => section.startsWith("Five journeys"))
    .flatMap((section) => section.split("\n### ").slice(1))
    .map((journey) => ({ title: journey.split("\n")[0] ?? "", text: journey }));

  test("describes the five main journeys", () => {
    expect(journeys.map(({ title }) => title)).toEqual([
      "Sign-in",
      "A page",
      "YAML to certificate",
      "Proof to decision",
      "Change to webhook",
    ]);
  });

  test.each(journeys)("lists the files of $title in the order of their imports", ({ text }) => {
    const imported = new Set<string>();
    const strays: string[] = [];
    for (const [, arrow, path = ""] of text.matchAll(/(→\s+)?`([^`\s]+\.ts)`/g)) {
      if (arrow === undefined && !imported.has(path)) strays.push(path);
      for (const [, specifier = ""] of read(path).matchAll(/from "(\.[^"]+)"/g)) {
        imported.add(posix.join(posix.dirname(path), specifier));
      }
    }
    expect(strays).toEqual([]);
  });
});

test("README contains every picture in docs/images, with an alternative text and a small size", () => {
  const pictures = [...read("README.md").matchAll(/!\[([^\]]+)\]\((docs\/images\/[^)]+)\)/g)];
  expect(pictures.map(([, , path]) => path).sort()).toEqual(
    globSync("docs/images/*", { cwd: fileURLToPath(TOP) }).sort(),
  );
  expect(pictures.filter(([, words = ""]) => words.length < 40)).toEqual([]);
  const sizes = pictures.map(([, , path = ""]) => statSync(new URL(path, TOP)).size);
  expect([sizes.length, sizes.filter((size) => size > 150_000)]).toEqual([2, []]);
});

test("CONTRIBUTING.md has at most 130 lines", () => {
  expect(read("CONTRIBUTING.md").trimEnd().split("\n").length).toBeLessThanOrEqual(130);
});
