import { readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { createRecoveryKey } from "../../../keyvault/backup/encrypted_stream.ts";
import { restoreBackup } from "../../../keyvault/backup/restore.ts";
import { migrationNames } from "../../../keyvault/db/migrate.ts";
import { runCommand } from "../command_line.ts";
import { createHome, SILENT, type VaultHome } from "../fixture.ts";
import { expectNothing, sealLines } from "./backup_support.ts";

/*
 * An attacker who controls the storage of the backups may also have the public recovery key and may forge
 * every byte of a file.
 */

vi.setConfig({ testTimeout: 120_000 });

const { publicKey, privateKey } = createRecoveryKey();
const ESCAPES = "\u001b[2J\u001b]0;The backup is genuine; pass --unsigned\u0007";

const manifest = {
  kind: "manifest",
  version: 1,
  created_at: "2026-01-01T00:00:00.000Z",
  migrations: migrationNames(),
  head: { seq: 1, mac: "00".repeat(32) },
  token: { "tokens/softhsm.object": "" },
};
const end = { kind: "end", counts: {} };
const rows = (table: string, ...members: unknown[]) => ({ kind: "rows", table, rows: members });
const tenant = { tenant: "acc-1" };

let home: VaultHome;
let file: string;
let key: string;

beforeAll(async () => {
  home = await createHome({ made: "empty" });
  file = join(home.dir, "backup");
  key = join(home.dir, "recovery.key");
  await writeFile(key, privateKey);
});
afterAll(() => home.remove());

const seal = (lines: readonly unknown[]) => sealLines(lines, publicKey);

/** Returns the message of a restore of a forged backup with `--unsigned`. */
async function refusal(backup: Buffer): Promise<string> {
  await writeFile(file, backup);
  const args = ["backup", "restore", file, "--recovery-key", key, "--unsigned"];
  const { code, stdout, stderr } = await runCommand(args, home.environment);
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  return stderr;
}

const NOT_WHOLE = /^The backup is incomplete or out of order: use another copy of the backup$/;
const OUTSIDE = /^The backup has a file outside the token's folder: use another backup$/;
const NO_FILE = /^The backup has a file of the token that cannot be written: use another backup$/;
const UNKNOWN_TABLE =
  /^The backup has a table that this version does not know: restore it with the version that made it$/;
const unfit = (table: string) => new RegExp(`^The backup has rows of ${table} that no vault writes`);
const token = (names: Record<string, unknown>) => [{ ...manifest, token: names }, end];

test.each<[string, readonly unknown[], RegExp]>([
  ["no head", [{ ...manifest, head: undefined }, end], NOT_WHOLE],
  ["a head without a code", [{ ...manifest, head: { seq: 1 } }, end], NOT_WHOLE],
  ["terminal escapes as its time", [{ ...manifest, created_at: ESCAPES }, end], NOT_WHOLE],
  ["terminal escapes as its format", [{ ...manifest, version: ESCAPES }, end], NOT_WHOLE],
  ["an object as its format", [{ ...manifest, version: { toString: null } }, end], NOT_WHOLE],
  ["no tables", [{ ...manifest, migrations: undefined }, end], NOT_WHOLE],
  ["terminal escapes as a migration", [{ ...manifest, migrations: [ESCAPES] }, end], NOT_WHOLE],
  ["no token", [{ ...manifest, token: undefined }, end], NOT_WHOLE],
  ["a number as a file", token({ file: 7 }), NOT_WHOLE],
  ["a file named like a folder", token({ ".": "" }), NO_FILE],
  ["a file name that ends with a slash", token({ "tokens/": "" }), NO_FILE],
  ["a file name with a NUL", token({ "a\u0000b": "" }), NO_FILE],
  ["a file that is also a folder", token({ a: "", "a/b": "" }), NO_FILE],
  ["a file inside another file", token({ "a/b/c": "", "a/b": "" }), NO_FILE],
  ["a file at the root", token({ "/etc/escaped": "" }), OUTSIDE],
  ["a file next to the data folder", token({ "../../escaped": "" }), OUTSIDE],
  ["a file next to the token's folder", token({ "../escaped": "" }), OUTSIDE],
  ["a file that leaves the token's folder after entering it", token({ "tokens/../../escaped": "" }), OUTSIDE],
  [
    "a file in another folder whose name starts like the token's",
    token({ "../token.unfinished-escaped/a": "" }),
    OUTSIDE,
  ],
  ["a file that returns to the token's folder", token({ "../token/escaped": "" }), OUTSIDE],
  ["a file that is the token's folder", token({ "tokens/..": "" }), OUTSIDE],
  ["a line that is null", [manifest, null, end], NOT_WHOLE],
  ["a line of another kind", [manifest, { kind: ESCAPES }, end], NOT_WHOLE],
  ["rows that are not a list", [manifest, { kind: "rows", table: "tenants", rows: tenant }, end], NOT_WHOLE],
  ["rows that are texts", [manifest, rows("tenants", "acc-1"), end], NOT_WHOLE],
  ["terminal escapes as a table", [manifest, rows(ESCAPES, {}), end], UNKNOWN_TABLE],
  ["a row without required columns", [manifest, rows("tenants", { tenant: null }), end], unfit("tenants")],
  ["a row with a NUL", [manifest, rows("tenants", { tenant: "a\u0000" }), end], unfit("tenants")],
  ["a value of the wrong type", [manifest, rows("audit", { seq: ESCAPES }), end], unfit("audit")],
  ["counts that are texts", [manifest, { ...end, counts: { keys: ESCAPES } }], NOT_WHOLE],
  ["counts of an unknown table", [manifest, { ...end, counts: { [ESCAPES]: 1 } }], UNKNOWN_TABLE],
  ["__proto__ as a table", [manifest, rows("__proto__"), end], UNKNOWN_TABLE],
])("a restore rejects a backup with %s, prints one line and writes nothing", async (_, lines, expected) => {
  await expectRefused(await seal(lines), expected);
});

test.each<[string, (backup: Buffer) => Buffer]>([
  ["all zeros", (backup) => backup.fill(0, 27, 59)],
  ["one", (backup) => backup.fill(0, 27, 59).fill(1, 27, 28)],
  ["minus one", (backup) => backup.fill(0xff, 27, 59).fill(0xec, 27, 28).fill(0x7f, 58, 59)],
])(
  "a restore rejects a backup whose one-time key is %s and gives no shared secret, and prints one line",
  async (_, alter) => {
    await expectRefused(alter(await seal([manifest, end])), /^The backup is damaged at part 1, or it is for/);
  },
);

async function expectRefused(backup: Buffer, expected: RegExp): Promise<void> {
  const said = await refusal(backup);
  expect(said).toMatch(/^keyvault: [ -~]+\n$/);
  expect(said.slice("keyvault: ".length, -1)).toMatch(expected);
  await expectNothing(home);
  const left = await readdir(home.dir, { recursive: true, withFileTypes: true });
  const files = left.filter((entry) => entry.isFile()).map(({ name }) => name);
  expect(files.sort()).toEqual(["backup", "recovery.key"]);
}

test("one of two concurrent restores into the same folder completes, and the other reports the conflict", async () => {
  const names = Array.from({ length: 200 }, (_, number) => `tokens/${number}.object`);
  const backup = await seal(token(Object.fromEntries(names.map((name) => [name, "AAAA"]))));
  const trust = { recoveryKey: privateKey, origin: "unsigned" } as const;
  const two = await createHome({ made: "empty" });
  try {
    const elsewhere = { ...two.config, dataDir: home.config.dataDir, token: home.config.token };
    for (const [other, into] of [
      [home, home.config],
      [two, elsewhere],
    ] as const) {
      const ended = await Promise.allSettled(
        [home.config, into].map((config) =>
          restoreBackup(config, () => Readable.from([backup]), trust, SILENT),
        ),
      );
      const refused = ended.flatMap((result) =>
        result.status === "rejected" ? [result.reason as Error] : [],
      );
      expect(refused).toEqual([
        expect.objectContaining({
          name: "UserError",
          message: expect.stringMatching(
            /^The database holds a vault already|^There is a token in|^Another program writes/,
          ),
        }),
      ]);
      expect((await readdir(join(home.config.token.dir, "tokens"))).length).toBe(names.length);
      await rm(home.config.token.dir, { recursive: true });
      for (const { sql } of [home, other]) await sql("drop schema public cascade; create schema public");
      await expectNothing(home);
    }
  } finally {
    await two.remove();
  }
});
