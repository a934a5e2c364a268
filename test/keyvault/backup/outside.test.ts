import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { basename } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createRecoveryKey, encryptStream } from "../../../keyvault/backup/encrypted_stream.ts";
import { restoreBackup } from "../../../keyvault/backup/restore.ts";
import { migrationNames } from "../../../keyvault/db/migrate.ts";
import { createHome, SILENT, type VaultHome } from "../fixture.ts";

/*
 * A backup is encrypted to a public key, so anybody can make one without a signature: its token files are
 * names that a stranger chose, and the operator who says `--unsigned` has been deceived.
 */

let home: VaultHome;

beforeAll(async () => {
  home = await createHome({ made: "empty" });
});
afterAll(() => home.remove());

test.each([
  ["beside the data folder", () => "../../escaped"],
  ["beside the token", () => "../escaped"],
  ["by way of a folder of the token's", () => "tokens/../../escaped"],
  [
    "in a folder whose name begins as the token's",
    () => `../${basename(home.config.token.dir)}.unfinished-escaped/file`,
  ],
  ["in the token's own place", () => `../${basename(home.config.token.dir)}/escaped`],
  ["at the folder itself", () => "tokens/.."],
])("a backup with a file %s is refused, and nothing is written", async (_, name) => {
  const { privateKey, publicKey } = createRecoveryKey();
  const manifest = {
    kind: "manifest",
    version: 1,
    created_at: "2026-01-01T00:00:00.000Z",
    migrations: migrationNames(),
    head: { seq: 0, mac: "00".repeat(32) },
    token: { "tokens/softhsm.object": "", [name()]: Buffer.from("of a stranger").toString("base64") },
  };
  const lines = async function* (): AsyncGenerator<string> {
    yield `${JSON.stringify(manifest)}\n`;
    yield `${JSON.stringify({ kind: "end", counts: {} })}\n`;
  };
  await expect(
    restoreBackup(
      home.config,
      () => encryptStream(lines(), publicKey),
      { recoveryKey: privateKey, origin: "unsigned" },
      SILENT,
    ),
  ).rejects.toThrow("The backup has a file outside the token's folder");
  const left = await readdir(home.dir, { recursive: true, withFileTypes: true });
  expect(left.filter((entry) => entry.isFile())).toEqual([]);
  expect(existsSync(home.config.token.dir)).toBe(false);
  expect(await home.sql("select from pg_class where relnamespace = 'public'::regnamespace")).toEqual([]);
});
