import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createRequire } from "node:module";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { HEAD_NOTE_ID } from "../../keyvault/token/head_note.ts";
import { startVault, type TestVault } from "./fixture.ts";

/*
 * Tried with the token's folder and without its PIN: SoftHSM lets whoever can write there put objects of their own into the token, with
 * values that they know.
 */

vi.setConfig({ testTimeout: 60_000 });

const PLANT = `
  const pkcs11 = require(process.argv[1]);
  const [module, label, id, aes] = process.argv.slice(2);
  const library = new pkcs11.PKCS11();
  library.load(module);
  library.C_Initialize();
  const slot = library.C_GetSlotList(true).find((slot) => library.C_GetTokenInfo(slot).label.trim() === "deputize");
  const session = library.C_OpenSession(slot, pkcs11.CKF_SERIAL_SESSION | pkcs11.CKF_RW_SESSION);
  library.C_CreateObject(session, [
    { type: pkcs11.CKA_CLASS, value: pkcs11.CKO_SECRET_KEY },
    { type: pkcs11.CKA_KEY_TYPE, value: aes === "aes" ? pkcs11.CKK_AES : pkcs11.CKK_GENERIC_SECRET },
    { type: pkcs11.CKA_LABEL, value: label },
    { type: pkcs11.CKA_ID, value: Buffer.from(id) },
    { type: pkcs11.CKA_TOKEN, value: true },
    { type: pkcs11.CKA_PRIVATE, value: false },
    { type: pkcs11.CKA_SENSITIVE, value: true },
    { type: pkcs11.CKA_EXTRACTABLE, value: false },
    { type: pkcs11.CKA_VALUE, value: Buffer.alloc(32, 1) },
    { type: pkcs11.CKA_SIGN, value: aes !== "aes" },
    ...(aes === "aes" ? [pkcs11.CKA_ENCRYPT, pkcs11.CKA_DECRYPT].map((type) => ({ type, value: true })) : []),
  ]);
`;

let vault: TestVault;

beforeAll(async () => {
  vault = await startVault();
});
afterAll(() => vault.close());

/** Puts a secret key of a known value into the token, as somebody who has its folder and no PIN. */
async function plant(label: string, { id = label, aes = false } = {}): Promise<void> {
  const { module, dir } = vault.home.config.token;
  const binding = createRequire(import.meta.url).resolve("pkcs11js");
  const args = ["-e", PLANT, binding, module, label, id, aes ? "aes" : "generic"];
  await promisify(execFile)(process.execPath, args, { env: { SOFTHSM2_CONF: join(dir, "softhsm2.conf") } });
}

async function makeKey(tenant: string): Promise<string | undefined> {
  await vault.makeKey({ tenant, purpose: "agent", label: "agent", ceiling: [] });
  const rows = await vault.home.sql<{ kek: string }>("SELECT kek FROM tenants WHERE tenant = $1", [tenant]);
  return rows[0]?.kek;
}

test("a key-encryption key that somebody put into the token's folder without the PIN wraps nothing", async () => {
  await plant("kek-2", { aes: true });
  vault = await vault.restart();
  expect(vault.token.info().keks).toEqual(["kek-1"]);
  expect(await makeKey("acc-1")).toBe("kek-1");
});

test("a second audit key that was put there codes nothing, and keeps the vault from nothing", async () => {
  await plant("audit-1");
  vault = await vault.restart();
  expect(vault.sealing.state()).toBeUndefined();
  await makeKey("acc-2");
  expect(await vault.verifyAudit()).toMatchObject({ intact: true });
});

test("a head that was put there as a noted one neither hides the true one nor seals the vault", async () => {
  await plant(`999999999999999:${randomBytes(32).toString("hex")}`, { id: HEAD_NOTE_ID.toString() });
  await makeKey("acc-3");
  const { seq } = vault.vault.journal.head();
  expect((await vault.token.notedHead()).head?.seq).toBe(seq);
  vault = await vault.restart();
  expect(vault.sealing.state()).toBeUndefined();
});
