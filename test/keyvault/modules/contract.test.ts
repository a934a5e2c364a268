import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadConfig } from "../../../keyvault/config.ts";
import type { RewrapProgress } from "../../../keyvault/kek/rewrap.ts";
import { openToken, type Token } from "../../../keyvault/token/client.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import { DamagedBox } from "../../../keyvault/token/messages.ts";
import { challengeSignBytes } from "../../../src/protocol/documents/challenge.ts";
import { type HybridSignature, verifyHybrid } from "../../../src/protocol/keys/hybrid.ts";
import { createHome, SILENT, startVault, type TestVault, type VaultHome } from "../fixture.ts";
import { createModuleHome, PKCS11JS, serveRemotely, WORKING } from "./modules.ts";

/* Tests what the vault requires of a PKCS#11 module. To test another module, add it to modules.ts. */

const absent = WORKING.filter(({ path }) => path === undefined);
for (const { name } of absent) console.warn(`NOT TRIED: ${name} is not installed`);

test("this machine has every module that Debian packages (softhsm2, libnss3)", () => {
  expect(absent.filter(({ packaged }) => packaged).map(({ name }) => name)).toEqual([]);
});

describe.each(WORKING.filter(({ path }) => path !== undefined))("$name", (module) => {
  let home: VaultHome;
  let token: Token;

  beforeAll(async () => {
    home = await createModuleHome(module);
    token = await openToken(await tokenSettings(home.config.token), SILENT);
  });
  afterAll(async () => {
    await token?.close();
    await home?.remove();
  });

  const context = Buffer.from("tenant acc-1");
  const plain = Buffer.alloc(32, 7);
  const isWell = () =>
    token.health().then(
      () => true,
      () => false,
    );

  test("unwraps only with the same context, and never gives the same wrapped bytes twice", async () => {
    const [one, other] = await Promise.all([token.wrap(plain, context), token.wrap(plain, context)]);
    expect(one.kek).toBe("kek-1");
    expect(Buffer.from(one.box).equals(Buffer.from(other.box))).toBe(false);
    expect(Buffer.from(one.box).includes(plain)).toBe(false);
    expect(Buffer.from(await token.unwrap(one, context))).toEqual(plain);
    for (const foreign of ["tenant acc-2", "tenant acc-1 ", "tenant acc-"]) {
      await expect(token.unwrap(one, Buffer.from(foreign))).rejects.toBeInstanceOf(DamagedBox);
    }
  });

  test("detects any flipped bit of a wrapped text and keeps working in the same process", async () => {
    const { kek, box } = await token.wrap(plain, context);
    const pid = token.pid();
    for (let at = 0; at < box.length; at += 1) {
      const altered = Buffer.from(box);
      altered[at]! ^= 1;
      await expect(token.unwrap({ kek, box: altered }, context)).rejects.toBeInstanceOf(DamagedBox);
    }
    for (const length of [0, 12, 28]) {
      await expect(token.unwrap({ kek, box: box.subarray(0, length) }, context)).rejects.toBeInstanceOf(
        DamagedBox,
      );
    }
    expect(Buffer.from(await token.unwrap({ kek, box }, context))).toEqual(plain);
    expect(token.pid()).toBe(pid);
  });

  test("wraps texts of 1 byte to 4 KiB", async () => {
    for (const length of [1, 15, 16, 17, 4096]) {
      const text = Buffer.alloc(length, length);
      const box = await token.wrap(text, context);
      expect(box.box).toHaveLength(12 + length + 16);
      expect(Buffer.from(await token.unwrap(box, context))).toEqual(text);
    }
  });

  test("chains codes independently of how the chain is split into calls", async () => {
    const texts = ["a", "b", "c"].map((text) => Buffer.from(text));
    const start = Buffer.alloc(32);
    const whole = await token.chain(start, texts);
    const [first] = await token.chain(start, texts.slice(0, 1));
    expect([first, ...(await token.chain(first!, texts.slice(1)))]).toEqual(whole);
    const states = await token.authenticate(texts);
    const codes = [...whole, ...states].map((code) => Buffer.from(code).toString("hex"));
    expect(new Set(codes).size).toBe(6);
    expect(codes.every((code) => code.length === 64)).toBe(true);
  });

  test("rejects running calls if its process is killed, and restarts with the same keys", async () => {
    const wrapped = await token.wrap(plain, context);
    const code = await token.authenticate([plain]);
    const pid = token.pid()!;
    process.kill(pid, "SIGSTOP");
    const flight = Array.from({ length: 20 }, () => token.unwrap(wrapped, context));
    process.kill(pid, "SIGKILL");
    for (const outcome of await Promise.allSettled(flight)) {
      expect(outcome).toMatchObject({ status: "rejected", reason: { code: "token_unavailable" } });
    }
    await expect.poll(isWell, { timeout: 10_000 }).toBe(true);
    expect(token.pid()).not.toBe(pid);
    expect(Buffer.from(await token.unwrap(wrapped, context))).toEqual(plain);
    expect(await token.authenticate([plain])).toEqual(code);
  });

  test("does not open with another PIN", async () => {
    const { place, environment } = await tokenSettings(home.config.token);
    const pinFile = `${home.dir}/other-pin`;
    await writeFile(pinFile, "0".repeat(64), { mode: 0o600 });
    await expect(openToken({ place: { ...place, pinFile }, environment }, SILENT)).rejects.toThrow(
      /refused the PIN of .*other-pin \(CKR_PIN_/,
    );
  });

  test("marks keys as sensitive and not extractable", async () => {
    const { place, environment } = await tokenSettings(home.config.token);
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ["-e", ATTRIBUTES_SCRIPT, PKCS11JS, JSON.stringify(place)],
      { env: { ...environment } },
    );
    const found = JSON.parse(stdout) as [string, ...unknown[]][];
    expect(found.filter(([label]) => /^(kek|audit)-/.test(label))).toEqual([
      ["audit-1", 1, 0, "CKR_ATTRIBUTE_SENSITIVE"],
      ["kek-1", 1, 0, "CKR_ATTRIBUTE_SENSITIVE"],
    ]);
  });

  describe("with a vault", () => {
    let vault: TestVault;
    beforeAll(async () => {
      await token.close();
      vault = await startVault(home);
    });
    afterAll(() => vault?.stop());

    test("creates keys, signs, rotates, rewraps and retires, and still signs after a restart", async () => {
      const { key_id, public_key } = await vault.makeAgent("acc-1");
      const post = (path: string, body: object = {}) => vault.post(path, body, vault.admin);
      const signs = async () => {
        const { tenant: _, ...binding } = vault.challenge();
        const { body } = await vault.sign(key_id);
        const signature = body.challenge_sig as HybridSignature;
        return verifyHybrid(public_key, challengeSignBytes(binding), signature);
      };
      expect(await signs()).toBe(true);
      expect((await post("/v1/kek/rotate")).body).toMatchObject({ kek: "kek-2" });
      await post("/v1/kek/rewrap");
      const progress = async () => (await vault.get("/v1/status")).body.kek as RewrapProgress;
      await expect.poll(progress, { timeout: 10_000 }).toMatchObject({ running: false, remaining: 0 });
      expect((await post("/v1/kek/retire", { kek: "kek-1" })).body).toMatchObject({
        keks: ["kek-2"],
      });
      vault = await vault.restart();
      expect(vault.vault.token.info().keks).toEqual(["kek-2"]);
      expect(await signs()).toBe(true);
      expect((await vault.verifyAudit()).intact).toBe(true);
    });
  });
});

const ATTRIBUTES_SCRIPT = `
  const pkcs11 = require(process.argv[1]);
  const { module, parameters, label, pinFile } = JSON.parse(process.argv[2]);
  const library = new pkcs11.PKCS11();
  library.load(module);
  library.C_Initialize({ flags: pkcs11.CKF_OS_LOCKING_OK, ...(parameters && { libraryParameters: parameters }) });
  const slot = library.C_GetSlotList(true).find((slot) => library.C_GetTokenInfo(slot).label.trim() === label);
  const session = library.C_OpenSession(slot, pkcs11.CKF_SERIAL_SESSION);
  library.C_Login(session, pkcs11.CKU_USER, require("node:fs").readFileSync(pinFile, "utf8").trim());
  library.C_FindObjectsInit(session, [{ type: pkcs11.CKA_CLASS, value: pkcs11.CKO_SECRET_KEY }]);
  const found = [];
  for (let object; (object = library.C_FindObjects(session)); ) {
    const read = (name) => library.C_GetAttributeValue(session, object, [{ type: pkcs11[name] }])[0].value;
    const value = (() => { try { read("CKA_VALUE"); return "read"; } catch (error) { return error.message; } })();
    found.push([read("CKA_LABEL").toString(), read("CKA_SENSITIVE")[0], read("CKA_EXTRACTABLE")[0], value]);
  }
  console.log(JSON.stringify(found.sort()));`;

describe("p11-kit in front of SoftHSM", () => {
  test("lacks a mechanism that its protocol does not support, so the vault refuses to use p11-kit", async (context) => {
    const home = await createHome();
    const remote = await serveRemotely(home);
    try {
      if (remote === undefined) context.skip("p11-kit cannot be had");
      const config = loadConfig({ ...home.environment, ...remote!.environment });
      await expect(openToken(await tokenSettings(config.token), SILENT)).rejects.toThrow(
        "The token lacks mechanisms that are needed: CKM_AES_GCM",
      );
    } finally {
      await remote?.close();
      await home.remove();
    }
  });
});
