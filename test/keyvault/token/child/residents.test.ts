import { execFile } from "node:child_process";
import { generateKeyPairSync, randomBytes, sign } from "node:crypto";
import { createRequire } from "node:module";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createResidents, publicKeyOf } from "../../../../keyvault/token/child/residents.ts";
import type { Session } from "../../../../keyvault/token/child/session.ts";
import { openToken, type Token } from "../../../../keyvault/token/client.ts";
import { tokenSettings } from "../../../../keyvault/token/install.ts";
import { DamagedBox } from "../../../../keyvault/token/token_error.ts";
import { ALGORITHMS } from "../../../../src/protocol/keys/algorithms.ts";
import { createHome, SILENT, type VaultHome } from "../../fixture.ts";

let home: VaultHome;
let token: Token;

beforeAll(async () => {
  home = await createHome();
  token = await openToken(await tokenSettings(home.config.token), SILENT);
});
afterAll(async () => {
  await token.close();
  await home.remove();
});

const freshLabel = () => `key-${randomBytes(16).toString("hex")}`;
const bytes = Buffer.from("a statement");
const verify = (publicKey: Uint8Array, signature: Uint8Array) =>
  ALGORITHMS.ed25519.reference.verifyingKey(publicKey)!.verify(bytes, signature);

test("SoftHSM offers Ed25519 halves and no ML-DSA", () => {
  expect(token.info().resident).toEqual(["ed25519"]);
});

test("a half made in the token signs for the public key it gave, after its process was restarted too", async () => {
  const label = freshLabel();
  const { ed25519 } = await token.createResident(label, ["ed25519"]);
  expect(ed25519).toHaveLength(32);
  expect(await verify(ed25519!, await token.signResident(label, "ed25519", bytes))).toBe(true);
  const pid = token.pid()!;
  process.kill(pid, "SIGKILL");
  await expect
    .poll(
      () =>
        token.signResident(label, "ed25519", bytes).then(
          (made) => verify(ed25519!, made),
          () => false,
        ),
      {
        timeout: 10_000,
      },
    )
    .toBe(true);
});

test("each label has a key of its own, which is there once and gone when it is destroyed", async () => {
  const [one, other] = [freshLabel(), freshLabel()];
  const first = await token.createResident(one, ["ed25519"]);
  const second = await token.createResident(other, ["ed25519"]);
  expect(Buffer.from(first.ed25519!).equals(Buffer.from(second.ed25519!))).toBe(false);
  expect(await verify(first.ed25519!, await token.signResident(other, "ed25519", bytes))).toBe(false);
  expect((await token.listResidents()).labels).toEqual(expect.arrayContaining([one, other]));

  expect(await token.destroyResident(one)).toEqual({ destroyed: 1 });
  expect(await token.destroyResident(one)).toEqual({ destroyed: 0 });
  await expect(token.signResident(one, "ed25519", bytes)).rejects.toBeInstanceOf(DamagedBox);
  expect((await token.listResidents()).labels).not.toContain(one);
  expect(await verify(second.ed25519!, await token.signResident(other, "ed25519", bytes))).toBe(true);
});

test("a label that is taken is not given again: its key stays, and signs on", async () => {
  const label = freshLabel();
  const { ed25519 } = await token.createResident(label, ["ed25519"]);
  await expect(token.createResident(label, ["ed25519"])).rejects.toMatchObject({ code: "token_unavailable" });
  const signature = () => token.signResident(label, "ed25519", bytes).catch(() => undefined);
  await expect.poll(signature, { timeout: 10_000 }).toHaveLength(64);
  expect(await verify(ed25519!, (await signature())!)).toBe(true);
  expect(await token.destroyResident(label)).toEqual({ destroyed: 1 });
});

test("a half that the token does not have is not signed with, and the vault's own keys are out of reach", async () => {
  const label = freshLabel();
  await token.createResident(label, ["ed25519"]);
  await expect(token.signResident(label, "ml_dsa_65", bytes)).rejects.toBeInstanceOf(DamagedBox);
  const pid = token.pid();
  for (const foreign of ["kek-1", "audit-1", "key-", "", `${label}0`, "x".repeat(6_000_000)]) {
    const isSent = foreign.length < 5_000_000;
    const outcome = token.signResident(foreign, "ed25519", bytes).catch((error: unknown) => error);
    if (isSent) {
      expect(await outcome).toBeInstanceOf(DamagedBox);
    } else {
      expect(await outcome).toMatchObject({ code: "token_unavailable" });
    }
    if (isSent) expect(await token.destroyResident(foreign)).toEqual({ destroyed: 0 });
  }
  expect(token.pid(), "one label's fault ends no process").toBe(pid);
  expect((await token.health()).keks).toEqual(["kek-1"]);
});

test("a private half is sensitive and can never be taken out", async () => {
  const label = freshLabel();
  await token.createResident(label, ["ed25519"]);
  const script = `
    const pkcs11 = require(${JSON.stringify(createRequire(import.meta.url).resolve("pkcs11js"))});
    const library = new pkcs11.PKCS11();
    library.load(process.argv[1]);
    library.C_Initialize();
    const slot = library.C_GetSlotList(true).find((slot) => library.C_GetTokenInfo(slot).label.trim() === "deputize");
    const session = library.C_OpenSession(slot, pkcs11.CKF_SERIAL_SESSION);
    library.C_Login(session, pkcs11.CKU_USER, require("node:fs").readFileSync(process.argv[2], "utf8").trim());
    library.C_FindObjectsInit(session, [{ type: pkcs11.CKA_LABEL, value: process.argv[3] }]);
    const found = [];
    for (let object; (object = library.C_FindObjects(session)); ) {
      const types = ["CKA_SENSITIVE", "CKA_EXTRACTABLE", "CKA_ALWAYS_SENSITIVE", "CKA_NEVER_EXTRACTABLE"];
      const values = library.C_GetAttributeValue(session, object, types.map((type) => ({ type: pkcs11[type] })));
      const value = (() => { try { library.C_GetAttributeValue(session, object, [{ type: pkcs11.CKA_VALUE }]); return "read"; } catch (error) { return error.message; } })();
      found.push([...values.map(({ value }) => value[0]), value]);
    }
    console.log(JSON.stringify(found));`;
  const { environment, place } = await tokenSettings(home.config.token);
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["-e", script, place.module, place.pinFile, label],
    { env: { ...environment } },
  );
  expect(JSON.parse(stdout)).toEqual([[1, 0, 1, 1, "CKR_ATTRIBUTE_SENSITIVE"]]);
});

test("a point is taken raw and as an OCTET STRING, and nothing else is", () => {
  const point = randomBytes(32);
  expect(publicKeyOf(point, 32)).toEqual(point);
  expect(publicKeyOf(Buffer.concat([Buffer.from("0420", "hex"), point]), 32)).toEqual(point);
  for (const header of ["0320", "0421", "04", "042000"]) {
    expect(() => publicKeyOf(Buffer.concat([Buffer.from(header, "hex"), point]), 32)).toThrow(
      /public key of/,
    );
  }
  expect(() => publicKeyOf(randomBytes(1951), 1952)).toThrow(/1951 bytes/);
});

type Template = { type: number; value: unknown }[];

/**
 * A session of a library that lists these mechanisms, has ML-DSA-65 as PKCS#11 3.2 has it, and reports what
 * it was asked to generate.
 */
function fakeSession(mechanisms: readonly number[]) {
  const { publicKey, privateKey } = generateKeyPairSync("ml-dsa-65");
  const asked: { mechanism: number; ofPublic: Template; ofPrivate: Template }[] = [];
  let given = false;
  const library = {
    C_GetMechanismList: () => [...mechanisms],
    C_FindObjectsInit: () => {},
    C_FindObjects: () => {
      given = asked.length > 0 && !given;
      return given ? Buffer.from("private") : null;
    },
    C_FindObjectsFinal: () => {},
    C_GenerateKeyPair(
      _: unknown,
      { mechanism }: { mechanism: number },
      ofPublic: Template,
      ofPrivate: Template,
    ) {
      asked.push({ mechanism, ofPublic, ofPrivate });
      return { publicKey: Buffer.from("public"), privateKey: Buffer.from("private") };
    },
    C_GetAttributeValue: () => [{ value: publicKey.export({ format: "der", type: "spki" }).subarray(-1952) }],
    C_DestroyObject: () => {},
    C_SignInit(_: unknown, { mechanism }: { mechanism: number }) {
      if (mechanism !== 0x1d) throw new Error("CKR_MECHANISM_INVALID");
    },
    C_Sign(_: unknown, data: Buffer, room: Buffer) {
      const signature = sign(null, data, privateKey);
      if (signature.length > room.length) throw new Error("CKR_BUFFER_TOO_SMALL");
      return signature;
    },
  };
  return {
    session: { library, handle: Buffer.alloc(8), slot: Buffer.alloc(8) } as unknown as Session,
    asked,
  };
}

test("offers a half only when a token lists both its mechanisms", () => {
  const offered = (...mechanisms: number[]) => createResidents(fakeSession(mechanisms).session).offered;
  expect(offered()).toEqual([]);
  expect(offered(0x1055)).toEqual([]);
  expect(offered(0x1057, 0x1c)).toEqual([]);
  expect(offered(0x1055, 0x1057, 0x1d)).toEqual(["ed25519"]);
  expect(offered(0x1d, 0x1c, 0x1057, 0x1055)).toEqual(["ed25519", "ml_dsa_65"]);
});

test("asks for ML-DSA-65 as PKCS#11 3.2 says, and takes key and signature of their lengths", async () => {
  const { session, asked } = fakeSession([0x1c, 0x1d]);
  const residents = createResidents(session);
  const label = freshLabel();
  const { ml_dsa_65 } = residents.create(label, ["ml_dsa_65"]);
  expect(ml_dsa_65).toHaveLength(1952);
  const signature = residents.sign(label, "ml_dsa_65", bytes);
  expect(await ALGORITHMS.ml_dsa_65.reference.verifyingKey(ml_dsa_65!)!.verify(bytes, signature)).toBe(true);
  const [{ mechanism, ofPublic, ofPrivate }] = asked as [(typeof asked)[0]];
  const attribute = (template: Template, type: number) =>
    template.find((entry) => entry.type === type)?.value;
  expect(mechanism).toBe(0x1c);
  const [CKA_TOKEN, CKA_LABEL, CKA_KEY_TYPE, CKA_SENSITIVE, CKA_EXTRACTABLE] = [
    0x1, 0x3, 0x100, 0x103, 0x162,
  ];
  const CKA_PARAMETER_SET = 0x61d;
  expect(attribute(ofPublic, CKA_PARAMETER_SET)).toBe(2);
  expect(attribute(ofPublic, CKA_TOKEN)).toBe(false);
  for (const template of [ofPublic, ofPrivate]) expect(attribute(template, CKA_KEY_TYPE)).toBe(0x4a);
  expect(attribute(ofPrivate, CKA_LABEL)).toBe(label);
  expect(attribute(ofPrivate, CKA_TOKEN)).toBe(true);
  expect(attribute(ofPrivate, CKA_SENSITIVE)).toBe(true);
  expect(attribute(ofPrivate, CKA_EXTRACTABLE)).toBe(false);
});
