import { execFile } from "node:child_process";
import { chmod, readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { Socket } from "node:net";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { GENESIS } from "../../../keyvault/audit/record.ts";
import { openToken, type Token } from "../../../keyvault/token/client.ts";
import { MAX_FRAME_BYTES } from "../../../keyvault/token/frames.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import { openTokenLink } from "../../../keyvault/token/link.ts";
import { StaleOffer, WrongPin } from "../../../keyvault/token/messages.ts";
import { createOffer, encryptPin } from "../../../keyvault/token/pin_box.ts";
import { createHome, SILENT, type VaultHome } from "../fixture.ts";

/* Properties of the token beyond those that modules/contract.test.ts requires of every module. */

let home: VaultHome;
let token: Token;

beforeAll(async () => {
  home = await createHome();
  token = await openToken(await tokenSettings(home.config.token), SILENT);
});
afterEach(() => vi.restoreAllMocks());
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

test("the token returns the same codes for one large call as for many small calls", async () => {
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

test("the code of a state differs from a record's code over the same bytes", async () => {
  const text = Buffer.from("the same bytes");
  const [state] = await token.authenticate([text]);
  expect(await token.authenticate([text])).toEqual([state]);
  const [first, second] = await token.chain(GENESIS, [text, text]);
  for (const record of [first, second]) expect(record).not.toEqual(state);
});

test("every frame and chunk from the token's pipe is overwritten after use", async () => {
  const sent: Buffer[] = [];
  const came: Buffer[] = [];
  const { write, emit } = Socket.prototype;
  vi.spyOn(Socket.prototype, "write").mockImplementation(function (this: Socket, ...args: unknown[]) {
    if (Buffer.isBuffer(args[0])) sent.push(args[0]);
    return Reflect.apply(write, this, args);
  });
  vi.spyOn(Socket.prototype, "emit").mockImplementation(function (this: Socket, ...args: unknown[]) {
    if (args[0] === "data" && Buffer.isBuffer(args[1])) came.push(args[1]);
    return Reflect.apply(emit, this, args);
  });
  const wrapped = await token.wrap(Buffer.alloc(32, 7), context);
  expect(Buffer.from(await token.unwrap(wrapped, context))).toEqual(Buffer.alloc(32, 7));
  expect([sent.length, came.length > 1]).toEqual([2, true]);
  const isZero = (bytes: Uint8Array) => bytes.every((byte) => byte === 0);
  await expect.poll(() => [...sent, ...came].every(isZero)).toBe(true);
});

test("a child that does not answer for 5 s is replaced, and its calls fail", async () => {
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

test("the token does not open with a short PIN, with a PIN file that everybody may read, or without a PIN", async () => {
  const { place, environment } = await tokenSettings(home.config.token);
  const open = (pinFile: string) => openToken({ place: { ...place, pinFile }, environment }, SILENT);
  const file = `${home.dir}/pin`;
  await writeFile(file, "0".repeat(31), { mode: 0o600 });
  await expect(open(file)).rejects.toThrow(/31 characters; SoftHSM needs at least 32/);
  await writeFile(file, await readFile(place.pinFile, "utf8"));
  for (const mode of [0o604, 0o602, 0o601]) {
    await chmod(file, mode);
    await expect(open(file), mode.toString(8)).rejects.toThrow(/open to everybody/);
  }
  await expect(open(`${file}.none`)).rejects.toThrow(/cannot be read/);
  await chmod(file, 0o640);
  await (await open(file)).close();
});

test("the error names a module that cannot be loaded or a missing token", async () => {
  const { place, environment } = await tokenSettings(home.config.token);
  await expect(openToken({ place: { ...place, module: "/none.so" }, environment }, SILENT)).rejects.toThrow(
    /\/none\.so cannot be loaded/,
  );
  await expect(openToken({ place: { ...place, label: "other" }, environment }, SILENT)).rejects.toThrow(
    /no token labelled other/,
  );
});

test("an oversized message fails alone, and the child still works after the deadline of that message", async () => {
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

const WRONG = Buffer.alloc(64, 0x30);

test.each([
  ["got a wrong PIN", (offer: Uint8Array) => encryptPin(WRONG, offer), WrongPin],
  ["got a PIN that was not encrypted to it", () => encryptPin(WRONG, createOffer().publicKey), StaleOffer],
])("a token process that %s exits and accepts no second attempt", async (_, boxFor, refusal) => {
  const { place, environment } = await tokenSettings(home.config.token);
  const link = openTokenLink(environment, SILENT);
  const { publicKey } = await link.request({ kind: "offer" }, 20_000);
  const tried = link.request({ kind: "unseal", ...place, box: boxFor(publicKey), finalTry: false }, 20_000);
  await expect(tried).rejects.toBeInstanceOf(refusal);
  await link.ended;
  await expect(link.request({ kind: "offer" }, 20_000)).rejects.toThrow(/not running/);
});

test("a token process exits after one failure of its token, so that no call uses an unreliable token", async () => {
  const { place, environment } = await tokenSettings(home.config.token);
  const link = openTokenLink(environment, SILENT);
  await link.request({ kind: "open", ...place }, 20_000);
  const refused = link.request({ kind: "retire", kek: "kek-1" }, 20_000);
  await expect(refused).rejects.toThrow("kek-1 is not an older version of the key-encryption key");
  await link.ended;
});

test("a token process without an open token refuses token operations", async () => {
  const link = openTokenLink({}, SILENT);
  await expect(link.request({ kind: "rotate" }, 20_000)).rejects.toThrow("The token is not open");
  await link.ended;
});

test("nobody knows the security officer's PIN, and the user's PIN does not work in its place", async () => {
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

test("the tenth version of the key-encryption key is newer than the ninth, also for a second process", async () => {
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

test("a key-encryption key version is not used from the moment its retirement is requested", async () => {
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
