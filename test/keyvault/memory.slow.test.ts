import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { KeyRow, TenantRow } from "../../keyvault/db/rows.ts";
import { dataKeyContext, unwrapSeeds } from "../../keyvault/keys/wrapping.ts";
import { openToken } from "../../keyvault/token/client.ts";
import { tokenSettings } from "../../keyvault/token/install.ts";
import { createVaultClient, type VaultClient } from "../../src/vault/client.ts";
import { createHome, readIdentity, SILENT, type VaultHome } from "./fixture.ts";
import { findInMemory, mayReadMemory } from "./memory_support.ts";

const MAIN = fileURLToPath(new URL("../../keyvault/main.ts", import.meta.url));
const SIGNATURES = 1_000;
const UNHURRIED = { KEYVAULT_RATE_PER_KEY: "100000", KEYVAULT_RATE_PER_TENANT: "100000" };

let home: VaultHome;
let vault: ChildProcess;
let client: VaultClient;
let keyId: string;

beforeAll(async () => {
  home = await createHome();
  vault = spawn(process.execPath, ["--heapsnapshot-signal=SIGUSR2", MAIN, "serve"], {
    cwd: home.dir,
    env: { ...home.environment, KEYVAULT_LOG_LEVEL: "info", ...UNHURRIED },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const port = await new Promise<number>((resolve, reject) => {
    vault.once("exit", (code) => reject(new Error(`exit ${code}`)));
    createInterface({ input: vault.stdout! }).on("line", (line) => {
      const event = JSON.parse(line) as { event?: string; port?: number };
      if (event.event === "listening") resolve(event.port!);
    });
  });
  client = createVaultClient({ url: `https://localhost:${port}`, ...readIdentity(home, "api") });
  const order = { tenant: "acc-1", purpose: "agent", label: "agent", ceiling: [] } as const;
  keyId = (await client.createKey({ ...order, ceiling: [] }, "a-memory-test")).key_id;
}, 120_000);
afterAll(async () => {
  await client?.close();
  vault?.kill("SIGKILL");
  await home?.remove();
});

/** The key's two seeds and its tenant's data key, opened here with the vault's own token and code. */
async function readSecrets(): Promise<Record<"ed25519" | "ml_dsa_65" | "data key", Buffer>> {
  const [row] = await home.sql<KeyRow & Pick<TenantRow, "kek" | "wrapped_data_key">>(
    "SELECT * FROM keys JOIN tenants USING (tenant) WHERE key_id = $1",
    [keyId],
  );
  const token = await openToken(await tokenSettings(home.config.token), SILENT);
  const { kek, wrapped_data_key: box, tenant, purpose, public_key: publicKey, wrapped_seeds } = row!;
  const dataKey = await token.unwrap({ kek, box }, dataKeyContext(tenant));
  await token.close();
  const seeds = unwrapSeeds(dataKey, { keyId, tenant, purpose, publicKey, version: 1 }, wrapped_seeds);
  return {
    ed25519: Buffer.from(seeds.ed25519),
    ml_dsa_65: Buffer.from(seeds.ml_dsa_65),
    "data key": Buffer.from(dataKey),
  };
}

async function signMany(): Promise<void> {
  for (let done = 0; done < SIGNATURES; done += 20) {
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

const tokenProcess = (): number =>
  Number(readFileSync(`/proc/${vault.pid}/task/${vault.pid}/children`, "utf8").trim().split(" ")[0]);
const snapshots = () => readdirSync(home.dir).filter((name) => name.endsWith(".heapsnapshot"));

/** Written by the vault on the signal, after it collected its garbage. */
async function takeSnapshot(): Promise<string> {
  const before = snapshots().length;
  vault.kill("SIGUSR2");
  await expect.poll(() => snapshots().length, { timeout: 60_000 }).toBe(before + 1);
  const file = join(home.dir, snapshots().sort().at(-1)!);
  await expect
    .poll(() => readFileSync(file, "latin1").trimEnd().endsWith("}"), { timeout: 60_000 })
    .toBe(true);
  return readFileSync(file, "latin1");
}

test(`after ${SIGNATURES} signatures a heap snapshot holds no seed in any form`, async () => {
  await signMany();
  const { ed25519, ml_dsa_65 } = await readSecrets();
  const text = await takeSnapshot();
  expect(text, "the snapshot shows what the vault remembers").toContain(keyId);
  for (const seed of [ed25519, ml_dsa_65])
    for (const form of ["hex", "base64", "base64url", "latin1"] as const)
      expect(text.includes(seed.toString(form)), form).toBe(false);
}, 240_000);

if (!mayReadMemory) console.warn("SKIPPED: reading another process' memory needs Linux and root");
test.skipIf(!mayReadMemory)(
  "no writable memory of parent or child holds a seed when nothing is being signed, nor the child a data key",
  async () => {
    const secrets = await readSecrets();
    await takeSnapshot();
    const own = findInMemory(process.pid, secrets);
    expect(own, "the scan finds what is there").toContain("ed25519");
    expect(findInMemory(vault.pid!, { ed25519: secrets.ed25519, ml_dsa_65: secrets.ml_dsa_65 })).toEqual([]);
    expect(findInMemory(tokenProcess(), secrets)).toEqual([]);
  },
  240_000,
);
