import { execFile } from "node:child_process";
import { chmod, readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { GENESIS } from "../../../keyvault/audit/record.ts";
import { openToken, type Token } from "../../../keyvault/token/client.ts";
import { MAX_FRAME_BYTES } from "../../../keyvault/token/frames.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import { openTokenLink } from "../../../keyvault/token/link.ts";
import { DamagedBox } from "../../../keyvault/token/messages.ts";
import { createHome, SILENT, type VaultHome } from "../fixture.ts";

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

const isWell = () =>
  token.health().then(
    () => true,
    () => false,
  );
const context = Buffer.from("tenant acc-1");
const plain = Buffer.alloc(32, 7);

test("gives back what it wrapped, under the same context only", async () => {
  const wrapped = await token.wrap(plain, context);
  expect(wrapped.kek).toBe("kek-1");
  expect(Buffer.from(await token.unwrap(wrapped, context))).toEqual(plain);
  await expect(token.unwrap(wrapped, Buffer.from("tenant acc-2"))).rejects.toBeInstanceOf(DamagedBox);
});

test("never wraps to the same bytes twice", async () => {
  const [one, other] = await Promise.all([token.wrap(plain, context), token.wrap(plain, context)]);
  expect(Buffer.from(one.box).equals(Buffer.from(other.box))).toBe(false);
});

test("finds any flipped bit of a wrapped text, and works on", async () => {
  const { kek, box } = await token.wrap(plain, context);
  for (let at = 0; at < box.length; at += 1) {
    const altered = Buffer.from(box);
    altered[at]! ^= 1;
    await expect(token.unwrap({ kek, box: altered }, context)).rejects.toBeInstanceOf(DamagedBox);
  }
  await expect(token.unwrap({ kek, box: box.subarray(0, 28) }, context)).rejects.toBeInstanceOf(DamagedBox);
  expect(Buffer.from(await token.unwrap({ kek, box }, context))).toEqual(plain);
});

test("chains codes: each covers the one before it, wherever the chain is cut into calls", async () => {
  const texts = ["a", "b", "c"].map((text) => Buffer.from(text));
  const start = Buffer.alloc(32);
  const whole = await token.chain(start, texts);
  const [first] = await token.chain(start, texts.slice(0, 1));
  const rest = await token.chain(first!, texts.slice(1));
  expect([first, ...rest]).toEqual(whole);
  expect(new Set(whole.map((mac) => Buffer.from(mac).toString("hex"))).size).toBe(3);
});

test("codes as much text as it is given, in the same codes as little by little", async () => {
  const texts = Array.from({ length: 60 }, (_, index) => Buffer.alloc(131_072, index));
  const start = Buffer.alloc(32);
  const chained = await token.chain(start, texts);
  expect(chained).toHaveLength(60);
  expect(await token.chain(chained[29]!, texts.slice(30))).toEqual(chained.slice(30));
  const codes = await token.authenticate(texts);
  expect(codes).toEqual((await Promise.all(texts.map((text) => token.authenticate([text])))).flat());
  expect(await token.authenticate([])).toEqual([]);
  expect(await token.chain(start, [])).toEqual([]);
});

test("a killed child fails the calls in flight with token_unavailable, and comes back with the same keys", async () => {
  const wrapped = await token.wrap(plain, context);
  const pid = token.pid()!;
  process.kill(pid, "SIGSTOP");
  const flight = Array.from({ length: 50 }, () => token.unwrap(wrapped, context));
  process.kill(pid, "SIGKILL");
  for (const call of await Promise.allSettled(flight)) {
    expect(call).toMatchObject({ status: "rejected", reason: { code: "token_unavailable" } });
  }
  await expect.poll(isWell, { timeout: 10_000 }).toBe(true);
  expect(token.pid()).not.toBe(pid);
  expect(Buffer.from(await token.unwrap(wrapped, context))).toEqual(plain);
});

test("replaces a child that has not answered for 5 s, and fails its calls", async () => {
  const pid = token.pid()!;
  process.kill(pid, "SIGSTOP");
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const answer = token.health();
  answer.catch(() => {});
  try {
    vi.advanceTimersByTime(4_999);
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(1);
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
  await expect(answer).rejects.toMatchObject({ code: "token_unavailable" });
  await expect.poll(isWell, { timeout: 10_000 }).toBe(true);
  expect(token.pid()).not.toBe(pid);
});

test("the code of a state is not that of a record with the same bytes, at the chain's beginning either", async () => {
  const text = Buffer.from("the same bytes");
  const [state] = await token.authenticate([text]);
  expect(await token.authenticate([text])).toEqual([state]);
  const [first, second] = await token.chain(GENESIS, [text, text]);
  for (const record of [first, second]) expect(record).not.toEqual(state);
});

test("the keys in the token are sensitive and can never be taken out", async () => {
  const script = `
    const pkcs11 = require(${JSON.stringify(createRequire(import.meta.url).resolve("pkcs11js"))});
    const library = new pkcs11.PKCS11();
    library.load(process.argv[1]);
    library.C_Initialize();
    const slot = library.C_GetSlotList(true).find((slot) => library.C_GetTokenInfo(slot).label.trim() === "deputize");
    const session = library.C_OpenSession(slot, pkcs11.CKF_SERIAL_SESSION);
    library.C_Login(session, pkcs11.CKU_USER, require("node:fs").readFileSync(process.argv[2], "utf8").trim());
    library.C_FindObjectsInit(session, []);
    const found = [];
    for (let object; (object = library.C_FindObjects(session)); ) {
      const types = ["CKA_LABEL", "CKA_SENSITIVE", "CKA_EXTRACTABLE", "CKA_ALWAYS_SENSITIVE", "CKA_NEVER_EXTRACTABLE"];
      const values = library.C_GetAttributeValue(session, object, types.map((type) => ({ type: pkcs11[type] })));
      const value = (() => { try { library.C_GetAttributeValue(session, object, [{ type: pkcs11.CKA_VALUE }]); return "read"; } catch (error) { return error.message; } })();
      found.push([values[0].value.toString(), ...values.slice(1).map(({ value }) => value[0]), value]);
    }
    console.log(JSON.stringify(found.sort()));`;
  const { environment, place } = await tokenSettings(home.config.token);
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["-e", script, place.module, place.pinFile],
    { env: { ...environment } },
  );
  expect(JSON.parse(stdout)).toEqual([
    [expect.stringMatching(/^00000001:[0-9a-f]{64}$/), 1, 0, 1, 1, "CKR_ATTRIBUTE_SENSITIVE"],
    ["audit-1", 1, 0, 1, 1, "CKR_ATTRIBUTE_SENSITIVE"],
    ["kek-1", 1, 0, 1, 1, "CKR_ATTRIBUTE_SENSITIVE"],
  ]);
});

test("refuses to open with another PIN, a short one, one that everybody may read, and none", async () => {
  const { place, environment } = await tokenSettings(home.config.token);
  const pin = await readFile(place.pinFile, "utf8");
  const open = (pinFile: string) => openToken({ place: { ...place, pinFile }, environment }, SILENT);
  const file = `${home.dir}/pin`;
  await writeFile(file, "0".repeat(64), { mode: 0o600 });
  await expect(open(file)).rejects.toThrow(/does not accept the PIN/);
  await writeFile(file, "0".repeat(31));
  await expect(open(file)).rejects.toThrow(/31 characters; SoftHSM needs at least 32/);
  await writeFile(file, pin);
  for (const mode of [0o604, 0o602, 0o601]) {
    await chmod(file, mode);
    await expect(open(file), mode.toString(8)).rejects.toThrow(/open to everybody/);
  }
  await expect(open(`${file}.none`)).rejects.toThrow(/cannot be read/);
  await chmod(file, 0o640);
  await (await open(file)).close();
});

test("says which module cannot be loaded and which token is not there", async () => {
  const { place, environment } = await tokenSettings(home.config.token);
  await expect(openToken({ place: { ...place, module: "/none.so" }, environment }, SILENT)).rejects.toThrow(
    /\/none\.so cannot be loaded/,
  );
  await expect(openToken({ place: { ...place, label: "other" }, environment }, SILENT)).rejects.toThrow(
    /no token labelled other/,
  );
});

test("a message that is too large for the pipe fails alone, and the child lives beyond its deadline", async () => {
  const link = openTokenLink({}, SILENT);
  let ended = false;
  void link.ended.then(() => {
    ended = true;
  });
  try {
    const texts: Uint8Array[] = [Buffer.alloc(MAX_FRAME_BYTES)];
    await expect(link.request({ kind: "authenticate", texts }, 50)).rejects.toThrow(/too large/);
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(ended).toBe(false);
    expect(await link.request({ kind: "offer" }, 20_000)).toHaveProperty("publicKey");
  } finally {
    link.kill();
    await link.ended;
  }
});

test("the tenth version of the key-encryption key is newer than the ninth, also to who opens the token anew", async () => {
  const labels = Array.from({ length: 11 }, (_, index) => `kek-${index + 1}`);
  for (let { keks } = token.info(); keks.length < labels.length; { keks } = await token.rotate());
  const opened = await openToken(await tokenSettings(home.config.token), SILENT);
  try {
    expect(opened.info().keks).toEqual(labels);
    expect((await opened.wrap(plain, context)).kek).toBe("kek-11");
  } finally {
    await opened.close();
  }
});

test("a version counts no more from the moment its retirement is asked for, answered or not", async () => {
  await token.rotate();
  const before = token.info().keks;
  process.kill(token.pid()!, "SIGSTOP");
  const retiring = token.retire("kek-1");
  expect(token.info().keks).toEqual(before.slice(1));
  process.kill(token.pid()!, "SIGKILL");
  await expect(retiring).rejects.toMatchObject({ code: "token_unavailable" });
  await expect
    .poll(() => token.health().then(({ keks }) => keks, String), { timeout: 10_000 })
    .toEqual(before);
  expect(token.info().keks).toEqual(before);
});

test("nobody knows the officer's PIN, who could give the token another one: the user's does not serve for it", async () => {
  const script = `
    const pkcs11 = require(${JSON.stringify(createRequire(import.meta.url).resolve("pkcs11js"))});
    const library = new pkcs11.PKCS11();
    library.load(process.argv[1]);
    library.C_Initialize();
    const slot = library.C_GetSlotList(true).find((slot) => library.C_GetTokenInfo(slot).label.trim() === "deputize");
    const session = library.C_OpenSession(slot, pkcs11.CKF_SERIAL_SESSION | pkcs11.CKF_RW_SESSION);
    const pin = require("node:fs").readFileSync(process.argv[2], "utf8").trim();
    for (const one of [pin, "", "0".repeat(64), "deputize", "12345678"])
      try { library.C_Login(session, pkcs11.CKU_SO, one); console.log("in"); } catch (error) { console.log(error.message); }`;
  const { environment, place } = await tokenSettings(home.config.token);
  const run = promisify(execFile)(process.execPath, ["-e", script, place.module, place.pinFile], {
    env: { ...environment },
  });
  expect((await run).stdout).toMatch(/^(CKR_PIN_\w+\n){5}$/);
});
