import { readFileSync } from "node:fs";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openToken, type Token } from "../../../keyvault/token/client.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import { WrongPin } from "../../../keyvault/token/messages.ts";
import { encryptPin } from "../../../keyvault/token/pin_box.ts";
import { until } from "../../support/process.ts";
import { COMPILER, type CountingHsm, insertCountingHsm } from "../../support/surroundings/counting_hsm.ts";
import { createHome, startVault, type VaultHome } from "../fixture.ts";

/* Faults of an HSM and of its module. None of them may stop the vault permanently or use up PINs. */

let home: VaultHome;
let hsm: CountingHsm;
let token: Token | undefined;
let lines: Record<string, unknown>[] = [];

beforeEach(async () => {
  home = await createHome();
  if (COMPILER !== undefined) hsm = insertCountingHsm(home);
  lines = [];
});
afterEach(async () => {
  await token?.close();
  token = undefined;
  await home.remove();
});

const log = pino({ base: null }, { write: (line) => void lines.push(JSON.parse(line)) });
const open = async () => {
  token = await openToken(await tokenSettings(home.config.token), log, "seal");
  return token;
};
const code = () => token!.authenticate([Buffer.from("a text")]);
const answers = () => code().then(Boolean, () => false);
const faults = () => lines.filter(({ event }) => event === "token_fault").map(({ reason }) => reason);

const [DEVICE_ERROR, DEVICE_REMOVED, NOT_PRESENT] = [0x30, 0x32, 0xe0];
const [SESSION_INVALID, LOGGED_IN, INITIALIZED] = [0xb3, 0x100, 0x191];

describe.skipIf(COMPILER === undefined)("the vault", () => {
  test.each([
    ["CKR_DEVICE_ERROR", DEVICE_ERROR],
    ["CKR_TOKEN_NOT_PRESENT", NOT_PRESENT],
  ])("starts although another slot reports %s", async (_, fault) => {
    hsm.addSlot(fault);
    await open();
    expect(await code()).toHaveLength(1);
  });

  test("names the faults of slots if it finds no token", async () => {
    hsm.fail("C_GetTokenInfo", DEVICE_ERROR);
    await expect(open()).rejects.toThrow(
      /^No token labelled deputize can be read; slots report CKR_DEVICE_ERROR/,
    );
    expect(hsm.tries()).toBe("");
  });

  test("tries no PIN if two slots have a token with its label, and says what to do", async () => {
    hsm.addSlot(0);
    await expect(open()).rejects.toThrow(
      "2 tokens are labelled deputize; one was expected: remove the others or change their labels",
    );
    expect(hsm.tries()).toBe("");
  });

  test("starts although somebody else has logged in to the token", async () => {
    hsm.fail("C_Login", LOGGED_IN);
    await open();
    expect(await code()).toHaveLength(1);
  });

  test("checks the PIN of an unsealing although somebody else has logged in to the token", async () => {
    const vault = await startVault(home);
    try {
      vault.token.seal("asked");
      const offer = async () =>
        Buffer.from(((await vault.get("/v1/unseal")).body.offer as string) ?? "", "base64");
      const unseal = async (pin: string) => {
        await until("an offer", async () => (await vault.get("/v1/unseal")).status === 200);
        hsm.fail("C_Login", LOGGED_IN);
        return vault.token.unseal(encryptPin(Buffer.from(pin), await offer()));
      };
      await expect(unseal("7".repeat(8))).rejects.toBeInstanceOf(WrongPin);
      expect(hsm.tries()).toBe("rw");
      await unseal(readFileSync(home.config.token.pinFile, "utf8").trim());
      expect(hsm.tries()).toBe("rwr");
    } finally {
      await vault.stop();
    }
  });

  test("starts although the module was initialized before", async () => {
    hsm.fail("C_Initialize", INITIALIZED);
    await open();
    expect(await code()).toHaveLength(1);
  });

  test("waits for a login that takes 10 s", async () => {
    hsm.fail("C_Login", 0, 10_000);
    await open();
    expect(await code()).toHaveLength(1);
    expect(hsm.tries()).toBe("r");
  });

  test("opens the token again when it appears after the vault lost it, and tries no PIN meanwhile", async () => {
    await open();
    hsm.fail("C_GetSlotList", NOT_PRESENT);
    process.kill(token!.pid()!, "SIGKILL");
    await until("three attempts", () => faults().length >= 3);
    expect(hsm.tries()).toBe("r");
    expect(new Set(faults())).toEqual(
      new Set(['The module has no token labelled deputize: run "keyvault init"']),
    );
    hsm.fail("C_GetSlotList");
    await until("an answer", answers);
    expect(hsm.tries()).toBe("rr");
  });

  test.each([
    ["reports CKR_DEVICE_REMOVED", DEVICE_REMOVED, 0],
    ["reports CKR_SESSION_HANDLE_INVALID", SESSION_INVALID, 0],
    ["does not answer", 0, 3_600_000],
  ])("signs again after a call that %s", async (_, fault, ms) => {
    await open();
    hsm.fail("C_Sign", fault, ms);
    await expect(code()).rejects.toMatchObject({ code: "token_unavailable" });
    hsm.fail("C_Sign");
    await until("an answer", answers);
    expect(hsm.tries()).toBe("rr");
  });

  test("reports the flags that the token sets while the vault runs", async () => {
    await open();
    expect(token!.pinFlags()).toEqual([]);
    hsm.setTries("ww");
    await token!.health();
    expect(token!.pinFlags()).toEqual(["count_low", "final_try"]);
    await token!.health();
    expect(lines.filter(({ event }) => event === "pin_flags")).toEqual([
      expect.objectContaining({ level: 40, flags: ["count_low", "final_try"] }),
    ]);
    hsm.fail("C_GetTokenInfo", DEVICE_ERROR);
    await token!.health();
    expect(token!.pinFlags()).toEqual(["count_low", "final_try"]);
  });
});
