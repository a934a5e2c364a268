import { existsSync } from "node:fs";
import { Readable } from "node:stream";
import { expect } from "vitest";
import { encryptStream } from "../../../keyvault/backup/encrypted_stream.ts";
import type { CreatedKey } from "../../../keyvault/keys/create.ts";
import { challengeSignBytes } from "../../../src/protocol/documents/challenge.ts";
import { type HybridSignature, verifyHybrid } from "../../../src/protocol/keys/hybrid.ts";
import { type TestVault, unfinishedTokens, type VaultHome } from "../fixture.ts";
import type { Client } from "../http/caller_support.ts";

/** Encrypts these lines as a backup. Anybody with the public recovery key can do this. */
export async function sealLines(lines: readonly unknown[], publicKey: string): Promise<Buffer> {
  const texts = Readable.from(lines.map((line) => `${JSON.stringify(line)}\n`));
  return Buffer.concat(await Array.fromAsync(encryptStream(texts, publicKey)));
}

/** Checks that a failed restore left no token, no part of a token, and no tables. */
export async function expectNothing(home: VaultHome): Promise<void> {
  expect(existsSync(home.config.token.dir)).toBe(false);
  expect(await unfinishedTokens(home)).toEqual([]);
  expect(await home.sql("select relname from pg_class where relnamespace = 'public'::regnamespace")).toEqual(
    [],
  );
}

/** Checks that a vault signs a challenge with the key that has this public key. */
export async function expectSigns(
  vault: TestVault,
  { key_id, public_key }: CreatedKey,
  client?: Client,
): Promise<void> {
  const { challenge, challenge_at } = vault.challenge();
  const { status, body } = await vault.sign(key_id, "acc-1", client);
  expect(status).toBe(200);
  const signed = challengeSignBytes({ challenge, challenge_at });
  expect(await verifyHybrid(public_key, signed, body.challenge_sig as HybridSignature)).toBe(true);
}
