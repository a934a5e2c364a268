import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { englishSample } from "./support/english_sample.ts";
import { findMessages, messagesOf } from "./support/messages.ts";

const said = (source: string) => messagesOf("a.ts", source).map(({ line, text }) => [line, text]);

test("the search finds messages of errors, refusals, checks and tables, with their placeholders", () => {
  expect(
    said(`
      throw new ApiError("invalid_scope", \`\${where}: is not a scope\`);
      const schema = z.string().regex(/^a b$/, "must not contain control characters");
      return refuse("policy_violation", wide ? "This is too wide" : "This is too narrow");
      const errorCodes = { not_found: [404, "There is no such thing"] };
      const other = "not a message";
      log.info("api listens");`),
  ).toEqual([
    [2, "{where}: is not a scope"],
    [3, "must not contain control characters"],
    [4, "This is too wide"],
    [4, "This is too narrow"],
    [5, "There is no such thing"],
  ]);
});

test("the search finds messages of the service and of its vault", () => {
  const root = fileURLToPath(new URL("..", import.meta.url));
  const texts = findMessages(root, ["src/proofs/verify/*.ts", "keyvault/**/*.ts"]).map(({ text }) => text);
  expect(texts).toContain("The backup is incomplete or out of order: use another copy of the backup");
  expect(texts).toContain("proof_bundle: is required");
});

test("the command for a sample of English draws the same sample for the same seed", async () => {
  const root = await mkdtemp(join(tmpdir(), "deputize-english-"));
  const comments = Array.from(
    { length: 200 },
    (_, n) => `/** Returns the number ${n}. */\nconst a${n} = ${n};`,
  );
  const files = {
    "src/a.ts": `${comments.join("\n")}\nthrow new Error("The number is too large");`,
    "test/a.test.ts": 'describe("a number", () => {\n  test("stays small", () => {});\n});',
    "docs/a.md": "# A page",
  };
  for (const [path, text] of Object.entries(files)) {
    await mkdir(join(root, dirname(path)), { recursive: true });
    await writeFile(join(root, path), text);
  }
  const [sample, again, other] = [7, 7, 8].map((seed) => englishSample(root, seed));
  expect(again).toBe(sample);
  expect(other).not.toBe(sample);
  const [, drawn, names, messages, pages] = sample?.split(/^## /m) ?? [];
  expect(new Set(drawn?.match(/Returns the number \d+/g)).size).toBe(100);
  expect([names, messages, pages]).toEqual([
    expect.stringContaining("1. test/a.test.ts\n   a number > stays small"),
    expect.stringContaining("1. src/a.ts:401\n   The number is too large"),
    expect.stringContaining("1. docs/a.md"),
  ]);
  await rm(root, { recursive: true });
});
