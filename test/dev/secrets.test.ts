import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openSecrets } from "../../src/dev/secrets.ts";
import { UserError } from "../../src/dev/user_error.ts";

const names = ["database.password", "keyvault.password", "operator.token", "sealing.key"];
let above: string;
let folder: string;

beforeEach(async () => {
  above = await mkdtemp(join(tmpdir(), "deputize-secrets-"));
  folder = join(above, "secrets");
});

afterEach(() => rm(above, { recursive: true, force: true }));

const read = (name: string) => readFile(join(folder, name), "utf8");

async function refusal(isNew: boolean): Promise<UserError> {
  const thrown = await openSecrets(folder, isNew).catch((error: unknown) => error);
  expect(thrown).toBeInstanceOf(UserError);
  return thrown as UserError;
}

describe("the secrets of a new data folder", () => {
  test("consist of 32 random bytes each, in files that only their owner can read", async () => {
    const secrets = await openSecrets(folder, true);
    expect((await stat(folder)).mode & 0o777).toBe(0o700);
    expect((await readdir(folder)).sort()).toEqual(names);
    const values = await Promise.all(names.map(read));
    expect(new Set(values).size).toBe(names.length);
    for (const [at, name] of names.entries()) {
      expect((await stat(join(folder, name))).mode & 0o777).toBe(0o600);
      expect(Buffer.from(values[at] ?? "", "base64")).toHaveLength(32);
    }
    expect(secrets.databasePassword).toMatch(/^[0-9a-f]{64}$/);
    expect(secrets.vaultDatabasePassword).not.toBe(secrets.databasePassword);
    expect(secrets.sealingKeyFile).toBe(join(folder, "sealing.key"));
    expect(secrets.operatorTokenFile).toBe(join(folder, "operator.token"));
  });

  test("become complete after an interrupted first start", async () => {
    await openSecrets(folder, true);
    const before = await read("database.password");
    await rm(join(folder, "sealing.key"));
    await openSecrets(folder, true);
    expect(await read("database.password")).toBe(before);
    expect((await readdir(folder)).sort()).toEqual(names);
  });
});

describe("the secrets of an existing data folder", () => {
  test("stay the same", async () => {
    const first = await openSecrets(folder, true);
    const second = await openSecrets(folder, false);
    expect(second.databasePassword).toBe(first.databasePassword);
    expect(second.vaultDatabasePassword).toBe(first.vaultDatabasePassword);
  });

  test.each(names)("cannot be opened without %s, which is reported as missing", async (name) => {
    await openSecrets(folder, true);
    await rm(join(folder, name));
    const problem = await refusal(false);
    expect(problem.message).toContain(`${join(folder, name)} is missing`);
    expect(await readdir(folder)).not.toContain(name);
  });

  test("cannot be opened without their folder", async () => {
    expect((await refusal(false)).message).toContain(`${join(folder, names[0] ?? "")} is missing`);
    await expect(stat(folder)).rejects.toThrow("ENOENT");
  });
});

describe.each([true, false])("openSecrets with isNew %j", (isNew) => {
  beforeEach(() => openSecrets(folder, true));

  test.each([
    ["empty", ""],
    ["only a line break", "\n"],
    ["one byte too short", Buffer.alloc(31, 1).toString("base64")],
    ["one byte too long", Buffer.alloc(33, 1).toString("base64")],
    ["without padding", Buffer.alloc(32, 1).toString("base64").slice(0, 43)],
    ["with a character outside base64", `!${Buffer.alloc(32, 1).toString("base64").slice(1)}`],
    ["in base64url", Buffer.alloc(32, 0xff).toString("base64url")],
    ["with nonzero padding bits", `${"A".repeat(42)}B=`],
    [
      "two lines long",
      `${Buffer.alloc(32, 1).toString("base64")}\n${Buffer.alloc(32, 1).toString("base64")}`,
    ],
  ])(
    "rejects bad content (%s), reports the path without the content, and keeps the file",
    async (_, content) => {
      for (const name of names) {
        const before = await read(name);
        await writeFile(join(folder, name), content);
        const problem = await refusal(isNew);
        expect(problem.message).toContain(`${join(folder, name)} is damaged`);
        if (content.trim() !== "") {
          expect(`${problem.message} ${problem.remedy}`).not.toContain(content.trim().slice(0, 20));
        }
        expect(await read(name)).toBe(content);
        await writeFile(join(folder, name), before);
      }
    },
  );

  test("accepts a file with or without a final line break", async () => {
    for (const end of ["", "\n", "\r\n"]) {
      await writeFile(
        join(folder, "database.password"),
        `${Buffer.alloc(32, 0xff).toString("base64")}${end}`,
      );
      expect((await openSecrets(folder, isNew)).databasePassword).toBe("ff".repeat(32));
    }
  });
});

test("write replaces the previous start's secret in a file that only its owner can read", async () => {
  const secrets = await openSecrets(folder, true);
  await secrets.write("database.url", "postgres://one");
  const file = await secrets.write("database.url", "postgres://two");
  expect(file).toBe(join(folder, "database.url"));
  expect(await read("database.url")).toBe("postgres://two\n");
  expect((await stat(file)).mode & 0o777).toBe(0o600);
});
