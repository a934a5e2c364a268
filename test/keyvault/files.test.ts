import { mkdir, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { writeFileDurably } from "../../keyvault/files.ts";

test("a file is written whole, or nothing is left of it and the error names it", async () => {
  const dir = await mkdtemp(join(tmpdir(), "keyvault-files-"));
  try {
    await writeFileDurably(join(dir, "one"), "text");
    expect(await readFile(join(dir, "one"), "utf8")).toBe("text");
    await mkdir(join(dir, "taken"));
    await expect(writeFileDurably(join(dir, "taken"), "text")).rejects.toMatchObject({
      code: "EISDIR",
      path: join(dir, "taken"),
    });
    expect((await readdir(dir)).sort()).toEqual(["one", "taken"]);
  } finally {
    await rm(dir, { recursive: true });
  }
});
