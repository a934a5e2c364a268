import { existsSync } from "node:fs";
import { Readable } from "node:stream";
import { expect } from "vitest";
import { encryptStream } from "../../../keyvault/backup/encrypted_stream.ts";
import { unfinishedTokens, type VaultHome } from "../fixture.ts";

/** A backup of these lines, as anybody who has the public recovery key can make it. */
export async function sealLines(lines: readonly unknown[], publicKey: string): Promise<Buffer> {
  const texts = Readable.from(lines.map((line) => `${JSON.stringify(line)}\n`));
  return Buffer.concat(await Array.fromAsync(encryptStream(texts, publicKey)));
}

/** Insists that a restore which failed left neither a token, nor a part of one, nor tables. */
export async function expectNothing(home: VaultHome): Promise<void> {
  expect(existsSync(home.config.token.dir)).toBe(false);
  expect(await unfinishedTokens(home)).toEqual([]);
  expect(await home.sql("select relname from pg_class where relnamespace = 'public'::regnamespace")).toEqual(
    [],
  );
}
