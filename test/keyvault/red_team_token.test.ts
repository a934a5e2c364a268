import { execFile } from "node:child_process";
import { createDecipheriv, randomBytes } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test, vi } from "vitest";
import { HEAD_NOTE_ID } from "../../keyvault/token/child/head_note.ts";
import { openToken } from "../../keyvault/token/client.ts";
import { tokenSettings } from "../../keyvault/token/install.ts";
import { createHome, SILENT, startVault } from "./fixture.ts";

/*
 * Every attempt has the token's folder but not its PIN. SoftHSM lets anybody who can write to the folder add
 * objects with known values to the token.
 */

vi.setConfig({ testTimeout: 60_000 });

const PLANT = `
  const pkcs11 = require(process.argv[1]);
  const [module, objects] = process.argv.slice(2);
  const library = new pkcs11.PKCS11();
  library.load(module);
  library.C_Initialize();
  const slot = library.C_GetSlotList(true).find((slot) => library.C_GetTokenInfo(slot).label.trim() === "deputize");
  const session = library.C_OpenSession(slot, pkcs11.CKF_SERIAL_SESSION | pkcs11.CKF_RW_SESSION);
  for (const { label, id, isAes } of JSON.parse(objects)) library.C_CreateObject(session, [
    { type: pkcs11.CKA_CLASS, value: pkcs11.CKO_SECRET_KEY },
    { type: pkcs11.CKA_KEY_TYPE, value: isAes ? pkcs11.CKK_AES : pkcs11.CKK_GENERIC_SECRET },
    { type: pkcs11.CKA_LABEL, value: label },
    { type: pkcs11.CKA_ID, value: Buffer.from(id) },
    { type: pkcs11.CKA_TOKEN, value: true },
    { type: pkcs11.CKA_PRIVATE, value: false },
    { type: pkcs11.CKA_SENSITIVE, value: true },
    { type: pkcs11.CKA_EXTRACTABLE, value: false },
    { type: pkcs11.CKA_VALUE, value: Buffer.alloc(32, 1) },
    { type: pkcs11.CKA_SIGN, value: !isAes },
    ...(isAes ? [pkcs11.CKA_ENCRYPT, pkcs11.CKA_DECRYPT].map((type) => ({ type, value: true })) : []),
  ]);
`;

test("the vault ignores keys and a head that were added to the token's folder without the PIN", async () => {
  let vault = await startVault();
  const { module, dir } = vault.home.config.token;
  const head = `999999999999999:${randomBytes(32).toString("hex")}`;
  const objects = [
    { label: "kek-2", id: "kek-2", isAes: true },
    { label: "audit-1", id: "audit-1", isAes: false },
    { label: head, id: HEAD_NOTE_ID.toString(), isAes: false },
  ];
  const args = [
    "-e",
    PLANT,
    createRequire(import.meta.url).resolve("pkcs11js"),
    module,
    JSON.stringify(objects),
  ];
  const env = { SOFTHSM2_CONF: join(dir, "softhsm2.conf") };
  await promisify(execFile)(process.execPath, args, { env });
  await vault.makeAgent("acc-1");
  expect((await vault.token.notedHead()).head?.seq).toBe(vault.head());
  vault = await vault.restart();
  expect(vault.sealing.state()).toBeUndefined();
  expect(vault.token.info().keks).toEqual(["kek-1"]);
  await vault.makeAgent("acc-2");
  const rows = await vault.home.sql("select distinct kek from tenants");
  expect(rows).toEqual([{ kek: "kek-1" }]);
  expect((await vault.token.notedHead()).head?.seq).toBe(vault.head());
  expect(await vault.verifyAudit()).toMatchObject({ intact: true });
  await vault.close();
});

type Attribute = { type: number; head: Buffer; value: Buffer };

const [LABEL, VALUE, KEY_TYPE] = [0x3, 0x11, 0x100];
const [FLAG, NUMBER] = [1, 2];
const AES = 0x1fn;

/**
 * Parses a SoftHSM object file: eight bytes, then attributes with a type, a kind and a value. Most values are
 * preceded by their length.
 */
function readObject(file: string): { generation: Buffer; attributes: Attribute[] } {
  const bytes = readFileSync(file);
  const attributes: Attribute[] = [];
  for (let at = 8; at < bytes.length; ) {
    const [type, kind] = [bytes.readBigUInt64BE(at), bytes.readBigUInt64BE(at + 8)].map(Number);
    const start = at + (kind === FLAG || kind === NUMBER ? 16 : 24);
    const length = kind === FLAG ? 1 : kind === NUMBER ? 8 : Number(bytes.readBigUInt64BE(at + 16));
    attributes.push({
      type: type ?? 0,
      head: bytes.subarray(at, start),
      value: bytes.subarray(start, start + length),
    });
    at = start + length;
  }
  return { generation: bytes.subarray(0, 8), attributes };
}

const attributeOf = ({ attributes }: { attributes: Attribute[] }, wanted: number) =>
  Buffer.from(attributes.find(({ type }) => type === wanted)?.value ?? []);

function withValue(attribute: Attribute, value: Buffer): Attribute {
  const head = Buffer.from(attribute.head);
  head.writeBigUInt64BE(BigInt(value.length), 16);
  return { ...attribute, head, value };
}

/**
 * Builds a forged key from encrypted pieces, because SoftHSM does not bind a piece to its object. The base is
 * a copy of the first key-encryption key. Its value becomes the end of the noted head's label, whose text is
 * not secret. One changed byte in the copy's label makes it the second version. Returns the forged value.
 */
function splice(folder: string, text: Buffer): Buffer {
  const objects = readdirSync(folder)
    .filter((name) => name.endsWith(".object") && name !== "token.object")
    .map((name) => readObject(join(folder, name)));
  const note = objects.find((object) => attributeOf(object, LABEL).length > 64);
  const kek = objects.find((object) => attributeOf(object, KEY_TYPE).readBigUInt64BE() === AES);
  const label = attributeOf(kek!, LABEL);
  label[4]! ^= "1".charCodeAt(0) ^ "2".charCodeAt(0);
  const forged = kek!.attributes.map((attribute) => {
    if (attribute.type === LABEL) return withValue(attribute, label);
    return attribute.type === VALUE
      ? withValue(attribute, attributeOf(note!, LABEL).subarray(-48))
      : attribute;
  });
  const bytes = [kek!.generation, ...forged.flatMap(({ head, value }) => [head, value])];
  writeFileSync(join(folder, "01234567-89ab-cdef-0123-456789abcdef.object"), Buffer.concat(bytes));
  return text.subarray(-16 - (text.length % 16));
}

function opens(box: Buffer, key: Buffer, context: Buffer): boolean {
  try {
    const decipher = createDecipheriv(`aes-${key.length * 8}-gcm` as "aes-192-gcm", key, box.subarray(0, 12));
    decipher.setAAD(context).setAuthTag(box.subarray(-16)).update(box.subarray(12, -16));
    decipher.final();
    return true;
  } catch {
    return false;
  }
}

test("nobody can build a known key from pieces that the token has encrypted", async () => {
  const home = await createHome();
  const seq = 1_234_567;
  const first = await openToken(await tokenSettings(home.config.token), SILENT);
  const mac = randomBytes(32);
  await first.noteHead({ seq, mac }, true);
  await first.close();
  const objects = join(home.config.token.dir, "objects");
  const folder = join(objects, readdirSync(objects)[0] ?? "");
  const key = splice(folder, Buffer.from(`${seq}:${mac.toString("hex")}`));
  const context = Buffer.from("context");
  const tried = openToken(await tokenSettings(home.config.token), SILENT).then(async (token) => {
    const { kek, box } = await token.wrap(Buffer.alloc(32, 9), context).finally(() => token.close());
    return `${kek} ${opens(Buffer.from(box), key, context) ? "of a known value" : "of its own"}`;
  });
  await expect(tried).rejects.toThrow("The token does not work: CKR_MECHANISM_INVALID");
  await home.remove();
});
