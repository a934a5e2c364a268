import { hash } from "node:crypto";
import { ml_dsa65 } from "@noble/post-quantum/ml-dsa.js";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { KeyRow, TenantRow } from "../../keyvault/db/rows.ts";
import { dataKeyContext, unwrapSeeds } from "../../keyvault/keys/wrapping.ts";
import { openToken } from "../../keyvault/token/client.ts";
import { tokenSettings } from "../../keyvault/token/install.ts";
import { createVaultClient, type VaultClient } from "../../src/vault/client.ts";
import { createHome, readIdentity, SILENT, type VaultHome } from "./fixture.ts";
import { call } from "./http/caller_support.ts";
import { countInMemory, mayReadMemory } from "./memory_support.ts";
import { childrenOf, type ServedVault, serveProgram, takeSnapshot } from "./program.ts";

const SIGNATURES = 3_000;
/** More than half of a seed. A shorter piece may remain in freed memory until that memory is reused. */
const PIECE_BYTES = 24;
const UNHURRIED = { KEYVAULT_RATE_PER_KEY: "100000", KEYVAULT_RATE_PER_TENANT: "100000" };

vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 });

let home: VaultHome;
let vault: ServedVault;
let client: VaultClient;
let keyId: string;

beforeAll(async () => {
  home = await createHome();
  vault = await serveProgram(home, { options: ["--heapsnapshot-signal=SIGUSR2"], environment: UNHURRIED });
  client = createVaultClient({ url: vault.url, ...readIdentity(home, "api") });
  const order = { tenant: "acc-1", purpose: "agent", label: "agent", ceiling: [] } as const;
  keyId = (await client.createKey({ ...order, ceiling: [] }, "a-memory-test")).key_id;
  await sign(SIGNATURES);
});
afterAll(async () => {
  await client?.close();
  await vault?.kill();
  await home?.remove();
});

type Secrets = { ed25519: Buffer; ml_dsa_65: Buffer; dataKey: Buffer };

/** Opens a key's two seeds and its tenant's data key with the vault's own token and code. */
async function readSecrets(key: string): Promise<Secrets> {
  const [row] = await home.sql<KeyRow & Pick<TenantRow, "kek" | "wrapped_data_key">>(
    "select * from keys join tenants using (tenant) where key_id = $1",
    [key],
  );
  const token = await openToken(await tokenSettings(home.config.token), SILENT);
  const { kek, wrapped_data_key: box, tenant, purpose, public_key: publicKey, wrapped_seeds } = row!;
  const dataKey = await token.unwrap({ kek, box }, dataKeyContext(tenant));
  await token.close();
  const seeds = unwrapSeeds(dataKey, { keyId: key, tenant, purpose, publicKey, version: 1 }, wrapped_seeds);
  return {
    ed25519: Buffer.from(seeds.ed25519),
    ml_dsa_65: Buffer.from(seeds.ml_dsa_65),
    dataKey: Buffer.from(dataKey),
  };
}

/**
 * Returns everything from which an attacker could sign: the seeds, the hash that Ed25519 derives, and the
 * secret part of the ML-DSA-65 key.
 */
function equivalents({ ed25519, ml_dsa_65 }: Secrets): Record<string, Buffer> {
  const expanded = Buffer.from(ml_dsa65.keygen(ml_dsa_65).secretKey);
  return {
    "Ed25519 seed": ed25519,
    "ML-DSA-65 seed": ml_dsa_65,
    "hashed Ed25519 seed": hash("sha512", ed25519, "buffer").subarray(16, 48),
    "secret of ML-DSA-65": expanded.subarray(32, 64),
    "packed s1 of ML-DSA-65": expanded.subarray(128, 160),
  };
}

/** Returns both ends of each secret, so that a search finds any copy of more than half of it. */
function piecesOf(secrets: Record<string, Buffer>): Record<string, Buffer> {
  return Object.fromEntries(
    Object.entries(secrets).flatMap(([name, bytes]) => [
      [`${name}, its first ${PIECE_BYTES} bytes`, bytes.subarray(0, PIECE_BYTES)],
      [`${name}, its last ${PIECE_BYTES} bytes`, bytes.subarray(-PIECE_BYTES)],
    ]),
  );
}

async function sign(count: number): Promise<void> {
  for (let done = 0; done < count; done += 20) {
    const challenge_at = Math.floor(Date.now() / 1000);
    await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        client.signChallenge(
          { tenant: "acc-1", keyId },
          { challenge: Buffer.alloc(32, index).toString("base64"), challenge_at },
        ),
      ),
    );
  }
}

const serviceKey = async () =>
  (await home.sql<{ key_id: string }>("select key_id from keys where purpose = 'service'"))[0]!.key_id;

if (!mayReadMemory) console.warn("SKIPPED: reading another process' memory needs Linux and root");
describe.skipIf(!mayReadMemory)("a running vault", () => {
  test(`has no seed in memory after ${SIGNATURES} signatures, and its token process has no data key`, async () => {
    const secrets = await readSecrets(keyId);
    expect(countInMemory(process.pid, { seed: secrets.ed25519 }), "the scan finds what is there").toEqual({
      seed: expect.any(Number),
    });
    const pieces = piecesOf({ ...equivalents(secrets), "data key": secrets.dataKey });
    expect(countInMemory(childrenOf(vault.pid)[0] ?? 0, pieces)).toEqual({});
    await sign(20);
    const once = { "data key, its first 24 bytes": 1, "data key, its last 24 bytes": 1 };
    expect(countInMemory(vault.pid, pieces), "the data key is kept for a minute, once").toEqual(once);
  });

  test("has no seed of new keys or of its service key in memory", async () => {
    const order = { tenant: "acc-1", purpose: "agent", label: "agent" } as const;
    const made = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        client.createKey({ ...order, ceiling: [] }, `memory-test-${index}`),
      ),
    );
    const keys = [...made.map(({ key_id }) => key_id), await serviceKey()];
    const seeds: Record<string, Buffer> = {};
    for (const key of keys) {
      const { ed25519, ml_dsa_65 } = await readSecrets(key);
      seeds[`${key} Ed25519`] = ed25519;
      seeds[`${key} ML-DSA-65`] = ml_dsa_65;
    }
    expect(countInMemory(vault.pid, piecesOf(seeds))).toEqual({});
  });

  test("has no seed in a heap snapshot in any encoding", async () => {
    const { ed25519, ml_dsa_65 } = await readSecrets(keyId);
    const text = await takeSnapshot(home, vault);
    expect(text, "the snapshot shows what the vault remembers").toContain(keyId);
    for (const seed of [ed25519, ml_dsa_65]) {
      for (const form of ["hex", "base64", "base64url", "latin1"] as const) {
        expect(text.includes(seed.toString(form)), form).toBe(false);
      }
    }
  });

  test("has neither seeds nor data keys in memory after it is sealed", async () => {
    const secrets = await readSecrets(keyId);
    await client.signChallenge(
      { tenant: "acc-1", keyId },
      { challenge: Buffer.alloc(32).toString("base64"), challenge_at: Math.floor(Date.now() / 1000) },
    );
    const sealed = await call(`${vault.url}/v1/seal`, readIdentity(home, "admin"), {
      method: "POST",
      body: {},
    });
    expect(sealed.status).toBe(200);
    const wanted = { ...equivalents(secrets), "data key": secrets.dataKey };
    expect(countInMemory(vault.pid, piecesOf(wanted))).toEqual({});
  });
});
