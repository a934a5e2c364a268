import { execFileSync } from "node:child_process";
import { mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { platform } from "../operator/schema/cases/manifests.ts";
import { check, checkJson, findingsIn, manifestFolder } from "./support.ts";

const head = "apiVersion: deputize.io/v1alpha1\nkind: Platform\nmetadata:\n  name: shop\nspec:\n";

describe("deputize check reports, and does not stop at,", () => {
  const laughs = Array.from({ length: 9 }, (_, n) => {
    const items = Array.from({ length: 9 }, () => `*a${n}`).join(", ");
    return `a${n + 1}: &a${n + 1} [${items}]`;
  });

  test.each([
    [
      "aliases that grow without bound",
      `a0: &a0 lol\n${laughs.join("\n")}\n`,
      "1:1 error has aliases that expand too far: write the values out",
    ],
    [
      "an alias that is its own part",
      "a: &a [*a]\n",
      "1:1 error line 1 has the alias *a inside its own anchor",
    ],
    ["an alias without an anchor", "a: *b\n", "1:1 error has an alias without an anchor before it"],
    [
      "the same key twice",
      `${head}  displayName: a\n  displayName: b\n`,
      /^a\.yaml:7:1 error Map keys must be unique/,
    ],
    [
      "a key that is not text",
      `${head}  yes: 1\n`,
      "6:1 error line 6 has the key yes, which is not text: put it in quotes",
    ],
    ["a tag", `${head}  a: !!binary AAAA\n`, /^a\.yaml:6:1 error line 6 has the tag /],
    ["a template", "kind: {{ .Values.kind }}\n", /^a\.yaml:1:1 error /],
    ["a list that is never closed", "[".repeat(200_000), /^a\.yaml:1:1 error /],
    ["bytes that are not UTF-8", Uint8Array.from([0x61, 0x3a, 0x20, 0xff, 0x0a]), "1:1 error is not UTF-8"],
    ["UTF-16", Buffer.from("\ufeffa: 1\n", "utf16le"), "1:1 error is not UTF-8"],
    ["a file of more than 1 MiB", " ".repeat(1024 * 1024 + 1), "1:1 error has more than 1048576 bytes"],
  ])("%s", async (_, text, expected) => {
    const found = await findingsIn({ "a.yaml": text, "b.yaml": [platform()] });
    const wanted = typeof expected === "string" ? `a.yaml:${expected}` : expect.stringMatching(expected);
    expect(found).toEqual([wanted]);
  });

  test("links, pipes and folders with the name of a manifest", async () => {
    const { folder } = await manifestFolder({ "b.yaml": [platform()] });
    await symlink("/dev/zero", join(folder, "zero.yaml"));
    await symlink("nowhere", join(folder, "gone.yaml"));
    await mkdir(join(folder, "folder.yaml"));
    execFileSync("mkfifo", [join(folder, "pipe.yaml")]);
    const { findings, objects } = await checkJson(folder);
    expect(objects).toBe(1);
    expect(findings.map(({ file, message }) => `${file.slice(folder.length + 1)} ${message}`)).toEqual([
      "gone.yaml cannot be read (ENOENT)",
      "pipe.yaml is not a regular file",
      "zero.yaml is not a regular file",
    ]);
  });

  test("a folder that contains itself", async () => {
    const { folder } = await manifestFolder({ "b.yaml": [platform()] });
    await symlink(folder, join(folder, "again"));
    await expect(check(folder)).rejects.toThrow("the folder cannot be read");
  });
});

describe("deputize check", () => {
  test("reads a link to a manifest, values through an anchor and a merge, and a byte-order mark", async () => {
    const text = `\ufeff${head}  displayName: &name Shop\n  description: *name\n  surfaceType: agentic_api\n  defaultAllowedScopes: [data:read]\n`;
    const { folder } = await manifestFolder({ "kept/a.txt": text });
    await symlink("kept/a.txt", join(folder, "a.yaml"));
    expect(await checkJson(folder)).toMatchObject({ ok: true, objects: 1 });
  });

  test("finds the line of a field behind an alias", async () => {
    const text = `${head}  displayName: a\n  surfaceType: agentic_api\n  defaultAllowedScopes: &s [data:read, data:raed]\n  acceptedPrincipals:\n    - humanID: "00000000000000000000000000000000"\n      scopes: *s\n`;
    const found = await findingsIn({ "a.yaml": text });
    expect(found).toEqual([
      expect.stringMatching(/^a\.yaml:8:40 error spec\.defaultAllowedScopes\[1\]/),
      expect.stringMatching(/^a\.yaml:8:40 error spec\.acceptedPrincipals\[0\]/),
    ]);
  });

  test("escapes text that would hide or forge output", async () => {
    const { folder } = await manifestFolder({
      "::stop-commands::x.yaml": `${head.replace("Platform", '"Plat\\e[2Kform\\n::add-mask::a"')}`,
    });
    const [text, github] = [await check(folder), await check(folder, { github: true })];
    for (const { out } of [text, github]) {
      expect(out.split("\n")).toHaveLength(2);
      expect(out).not.toMatch(/[^\P{Cc}\n]/u);
    }
    expect(github.out).toMatch(/^::error file=[^:]*%3A%3Astop-commands%3A%3Ax\.yaml,line=2,/);
  });

  test("never begins a line with a command to GitHub Actions", async () => {
    const { folder } = await manifestFolder({ "::stop-commands::x.yaml": "{" });
    const { out } = await check(join(folder, "::stop-commands::x.yaml"));
    expect(out).toMatch(/^(?!::)/);
    const { textLines } = await import("../../src/check/report.ts");
    const finding = { severity: "error", rule: "yaml", object: null, path: "", suggestion: null } as const;
    const line = textLines([{ ...finding, file: "::add-mask::a", line: 1, column: 1, message: "b" }]);
    expect(line).toEqual(["./::add-mask::a:1:1 error: b"]);
  });

  test("suggests nothing for an unreasonably long field, and answers soon", async () => {
    const { folder } = await manifestFolder({ "a.yaml": [platform({ ["a".repeat(500_000)]: 1 })] });
    const { findings } = await checkJson(folder);
    expect(findings).toMatchObject([{ message: "unknown field", suggestion: null }]);
  });
});
