import { readFileSync, statSync, writeFileSync } from "node:fs";
import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { loadConfig } from "../../../keyvault/config.ts";
import { initialize } from "../../../keyvault/init.ts";
import { openToken, type Token } from "../../../keyvault/token/client.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import { openTokenLink } from "../../../keyvault/token/link.ts";
import { PinWithheld, WrongPin } from "../../../keyvault/token/messages.ts";
import { encryptPin } from "../../../keyvault/token/pin_box.ts";
import type { LoginOutcome } from "../../../keyvault/token/pin_report.ts";
import { until } from "../../support/process.ts";
import { COMPILER, type CountingHsm, insertCountingHsm } from "../../support/surroundings/counting_hsm.ts";
import { runCommand } from "../command_line.ts";
import { createHome, SILENT, startVault, type TestVault, type VaultHome } from "../fixture.ts";

/* A real HSM locks its PIN permanently after a few wrong ones, and all keys are lost. */

let home: VaultHome;
let hsm: CountingHsm;
let token: Token | undefined;
let vault: TestVault | undefined;
let lines: Record<string, unknown>[] = [];
let outcomes: LoginOutcome[] = [];

beforeEach(async () => {
  home = await createHome();
  if (COMPILER !== undefined) hsm = insertCountingHsm(home);
  [lines, outcomes] = [[], []];
});
afterEach(async () => {
  await token?.close();
  await vault?.stop();
  token = vault = undefined;
  await home.remove();
});

const WRONG = "71".repeat(4);
const OTHER_WRONG = "72".repeat(4);
const log = pino({ base: null }, { write: (line) => void lines.push(JSON.parse(line)) });
const place = () => tokenSettings(home.config.token);
const count = (outcome: LoginOutcome) => void outcomes.push(outcome);
const open = async () => {
  token = await openToken(await place(), log, "seal", count);
  return token;
};
const reopen = async () => {
  await token?.close();
  return open();
};
const events = (name: string) => lines.filter(({ event }) => event === name);

async function unseal(pin: string, finalTry?: boolean): Promise<unknown> {
  const isOffered = () => {
    try {
      return token!.offer().length > 0;
    } catch {
      return false;
    }
  };
  await until("an offer", isOffered);
  return token!.unseal(encryptPin(Buffer.from(pin.trim()), Buffer.from(token!.offer())), finalTry);
}

const rightPin = () => readFileSync(home.config.token.pinFile, "utf8");

describe.skipIf(COMPILER === undefined)("with an HSM that locks its PIN after three wrong ones", () => {
  test("the vault tries a wrong PIN of its file once while it runs, whatever happens to the token's process", async () => {
    await open();
    hsm.writePin(WRONG);
    process.kill(token!.pid()!, "SIGKILL");
    await until("the seal", () => token!.sealed() === "pin_refused");
    for (let kills = 0; kills < 3; kills += 1) {
      await until("a process", () => token!.pid() !== undefined);
      process.kill(token!.pid()!, "SIGKILL");
      await until("its end", () => token!.pid() === undefined);
    }
    await until("a process", () => token!.pid() !== undefined);
    await sleep(6_000);
    expect(hsm.tries()).toBe("rw");
    expect(outcomes).toEqual(["accepted", "refused"]);
    expect(events("pin_refused")).toEqual([
      expect.objectContaining({ hold: "pin_refused", reason: expect.stringContaining("CKR_PIN_INCORRECT") }),
    ]);
    expect(token!.pinFlags()).toEqual(["count_low"]);
    await expect(token!.health()).rejects.toMatchObject({ code: "sealed" });
  });

  test("the vault tries a wrong PIN of its file once although the vault and init start again", async () => {
    hsm.writePin(WRONG);
    vault = await startVault(home);
    expect(vault.sealing.state()).toMatchObject({ reason: "pin_refused" });
    expect((await vault.get("/v1/status")).body).toMatchObject({ pin_flags: ["count_low"], token: null });
    await vault.stop();
    vault = await startVault(home);
    expect(vault.sealing.state()).toMatchObject({ reason: "pin_refused" });
    await vault.stop();
    vault = undefined;
    const steps: object[] = [];
    await initialize(home.config, { now: () => new Date() }, SILENT, { report: (step) => steps.push(step) });
    expect(steps).toContainEqual({ step: "service key", created: [], absent: ["accepted pin"] });
    await expect(openToken(await place(), SILENT)).rejects.toBeInstanceOf(PinWithheld);
    writeFileSync(home.config.token.pinFile, ` ${WRONG}\n`, { mode: 0o600 });
    await expect(openToken(await place(), SILENT)).rejects.toBeInstanceOf(PinWithheld);
    expect(hsm.tries()).toBe("w");
  });

  test("the vault tries another PIN of its file, and is open when the file has the right one", async () => {
    const right = rightPin();
    hsm.writePin(WRONG);
    await open();
    hsm.writePin(right);
    await reopen();
    expect([token!.sealed(), hsm.tries(), token!.pinFlags()]).toEqual([undefined, "wr", []]);
    hsm.writePin(WRONG);
    await reopen();
    expect([token!.sealed(), hsm.tries()]).toEqual(["pin_refused", "wr"]);
  });

  test("the vault never makes the last try automatically, and a person must ask for it", async () => {
    const right = rightPin();
    for (const pin of [WRONG, OTHER_WRONG, right]) {
      hsm.writePin(pin);
      await reopen();
    }
    expect([token!.sealed(), hsm.tries()]).toEqual(["pin_final_try", "ww"]);
    expect(token!.pinFlags()).toEqual(["count_low", "final_try"]);
    expect(outcomes).toEqual(["refused", "refused", "withheld"]);
    await expect(unseal(right)).rejects.toThrow('check the PIN, then run "keyvault unseal --final-try"');
    expect(hsm.tries()).toBe("ww");
    await unseal(right, true);
    expect([token!.sealed(), hsm.tries(), token!.pinFlags()]).toEqual([undefined, "wwr", []]);
  });

  test("the command line makes the last try only with --final-try, and the audit records both calls", async () => {
    const right = join(home.dir, "right");
    await copyFile(home.config.token.pinFile, right);
    hsm.setTries("ww");
    vault = await startVault(home);
    const { url } = vault;
    const unsealWith = (...options: string[]) =>
      runCommand(["unseal", "--url", url, "--pin-file", right, ...options], home.environment);
    const status = await runCommand(["status", "--url", url], home.environment);
    expect(status.stdout.replaceAll(/\n +/g, " ")).toMatch(
      /^SEALED .*--final-try"\nPIN +a wrong PIN was .*; ONE MORE WRONG PIN LOCKS THE TOKEN\n/,
    );
    const metrics = async () =>
      (await fetch(`http://127.0.0.1:${vault!.healthPort}/metrics`)).text().then((text) => text.split("\n"));
    expect(await metrics()).toEqual(
      expect.arrayContaining([
        'keyvault_pin_state{state="final_try"} 1',
        'keyvault_token_logins_total{outcome="withheld"} 1',
      ]),
    );
    expect(await unsealWith()).toEqual({
      ...{ code: 1, stdout: "" },
      stderr:
        'keyvault: The token locks its PIN after one more wrong PIN: check the PIN, then run "keyvault unseal --final-try"\n',
    });
    expect(hsm.tries()).toBe("ww");
    await vi.waitFor(
      async () => expect((await unsealWith("--final-try")).stdout).toBe("The vault is open.\n"),
      {
        timeout: 60_000,
        interval: 1_000,
      },
    );
    expect(hsm.tries()).toBe("wwr");
    expect((await vault.recordsAfter(0)).filter(({ statement }) => statement === "unseal")).toEqual([
      { statement: "unseal", outcome: "policy_violation" },
      { statement: "unseal", outcome: "granted" },
    ]);
    expect(await metrics()).toEqual(
      expect.arrayContaining([
        'keyvault_pin_state{state="final_try"} 0',
        'keyvault_token_logins_total{outcome="accepted"} 1',
      ]),
    );
  });

  test("neither init of a new vault nor audit verify tries a refused PIN", async () => {
    const other = await createHome({ made: "empty" });
    hsm.writePin(WRONG);
    const { KEYVAULT_DATABASE_URL, KEYVAULT_MIGRATION_DATABASE_URL } = other.environment;
    const config = loadConfig({
      ...home.environment,
      KEYVAULT_DATABASE_URL,
      KEYVAULT_MIGRATION_DATABASE_URL,
    });
    const tries = () => initialize(config, { now: () => new Date() }, SILENT);
    await expect(tries()).rejects.toThrow(/refused the PIN .* correct the file and start again/);
    await expect(tries()).rejects.toBeInstanceOf(PinWithheld);
    await other.remove();
    const verify = await runCommand(["audit", "verify"], home.environment);
    expect(verify).toMatchObject({
      code: 3,
      stderr: expect.stringMatching(/^keyvault: The token refused the PIN of /),
    });
    expect(hsm.tries()).toBe("w");
  });

  test("the vault does not try a PIN of its file that the token refused from a person", async () => {
    await open();
    token!.seal("asked");
    await expect(unseal(WRONG)).rejects.toThrow(/CKR_PIN_INCORRECT$/);
    await expect(unseal(OTHER_WRONG)).rejects.toThrow(/CKR_PIN_INCORRECT; one more wrong PIN locks it$/);
    expect(hsm.tries()).toBe("rww");
    hsm.setTries("");
    hsm.writePin(WRONG);
    await reopen();
    expect([token!.sealed(), hsm.tries()]).toEqual(["pin_refused", ""]);
  });

  test("the vault tries no PIN while it is locked, and opens with the same file after it was unlocked", async () => {
    hsm.setTries("www");
    await open();
    expect([token!.sealed(), hsm.tries(), token!.pinFlags()]).toEqual([
      "pin_locked",
      "www",
      ["count_low", "locked"],
    ]);
    await expect(unseal(WRONG)).rejects.toThrow("its security officer must unlock it");
    hsm.setTries("");
    await reopen();
    expect([token!.sealed(), hsm.tries()]).toEqual([undefined, "r"]);
  });

  test.each([
    ["CKR_PIN_EXPIRED", 0xa3, "pin_refused"],
    ["CKR_PIN_LOCKED without a flag", 0xa4, "pin_locked"],
    ["CKR_PIN_LEN_RANGE", 0xa2, "pin_refused"],
  ])(
    "the vault tries a PIN once that gets %s, and opens when a person enters it",
    async (_, code, reason) => {
      hsm.setFlags(0x80000);
      hsm.fail("C_Login", code);
      await open();
      expect([token!.sealed(), hsm.tries()]).toEqual([reason, "r"]);
      hsm.fail("C_Login");
      await reopen();
      expect([token!.sealed(), hsm.tries()]).toEqual(["pin_refused", "r"]);
      expect(token!.pinFlags()).toEqual(["to_be_changed"]);
      await unseal(rightPin());
      await reopen();
      expect([token!.sealed(), hsm.tries()]).toEqual([undefined, "rrr"]);
    },
  );

  test("the vault makes two logins without an answer, also if its process is killed meanwhile", async () => {
    hsm.fail("C_Login", 0x6);
    await expect(open()).rejects.toThrow("The login failed: CKR_FUNCTION_FAILED");
    hsm.fail("C_Login", 0, 3_600_000);
    const { place: where, environment } = await place();
    const link = openTokenLink(environment, SILENT);
    const opening = link.request({ kind: "open", ...where }, 3_600_000);
    await until("the second try", () => hsm.tries() === "rr");
    link.kill();
    await expect(opening).rejects.toThrow("The token's process ended");
    const notes = JSON.parse(readFileSync(home.config.token.pinTries.file, "utf8"));
    expect(notes).toMatchObject({ unanswered: 2, refused: [] });
    hsm.fail("C_Login");
    await open();
    expect([token!.sealed(), hsm.tries()]).toEqual(["pin_unanswered", "rr"]);
    await unseal(rightPin());
    await reopen();
    expect([token!.sealed(), hsm.tries()]).toEqual([undefined, "rrrr"]);
  });

  test("the vault makes no second login without an answer if the token counted a wrong PIN", async () => {
    hsm.writePin(WRONG);
    hsm.fail("C_Login", 0x6);
    await expect(open()).rejects.toThrow("CKR_FUNCTION_FAILED");
    hsm.fail("C_Login");
    await open();
    expect([token!.sealed(), hsm.tries()]).toEqual(["pin_unanswered", "w"]);
  });

  test.each([
    ["CKR_TOKEN_NOT_PRESENT", 0xe0],
    ["CKR_DEVICE_ERROR", 0x30],
  ])("the vault tries the PIN again after logins that report %s", async (name, code) => {
    hsm.fail("C_Login", code);
    for (let starts = 0; starts < 3; starts += 1) {
      await expect(open()).rejects.toThrow(name);
    }
    hsm.fail("C_Login");
    await open();
    expect([token!.sealed(), hsm.tries()]).toEqual([undefined, "rrrr"]);
  });

  test("the vault makes no second login after CKR_DEVICE_ERROR if the token counted a wrong PIN", async () => {
    hsm.writePin(WRONG);
    hsm.fail("C_Login", 0x30);
    await expect(open()).rejects.toThrow("CKR_DEVICE_ERROR");
    hsm.fail("C_Login");
    await open();
    expect([token!.sealed(), hsm.tries()]).toEqual(["pin_unanswered", "w"]);
  });

  test("the vault tries a PIN that another token refused, and does not forget the first token", async () => {
    hsm.writePin(WRONG);
    await open();
    hsm.setSerial("other");
    await reopen();
    expect([token!.sealed(), hsm.tries()]).toEqual(["pin_refused", "ww"]);
    hsm.setTries("w");
    hsm.setSerial();
    await reopen();
    expect([token!.sealed(), hsm.tries()]).toEqual(["pin_refused", "w"]);
  });

  test("the vault tries no PIN if it cannot note the try", async () => {
    writeFileSync(home.config.token.pinTries.file, "{}");
    await expect(open()).rejects.toThrow(/pin_tries\.json is damaged, so no PIN is tried/);
    const { file, key } = home.config.token.pinTries;
    const settings = await place();
    settings.place.tries = { file: `${file}.d/none`, key };
    await expect(openToken(settings, SILENT)).rejects.toThrow(/cannot be noted, so it is not made: ENOENT/);
    expect(hsm.tries()).toBe("");
  });

  test("the vault tries no PIN if the key of its notes changed after a refusal", async () => {
    const right = rightPin();
    hsm.writePin(WRONG);
    await open();
    const settings = await place();
    settings.place.tries = { ...settings.place.tries, key: Buffer.alloc(32, 1) };
    await expect(openToken(settings, SILENT)).rejects.toBeInstanceOf(PinWithheld);
    hsm.writePin(right);
    await expect(openToken(settings, SILENT), "the notes do not say which PIN").rejects.toBeInstanceOf(
      PinWithheld,
    );
    await reopen();
    await (await openToken(settings, SILENT)).close();
    expect(hsm.tries()).toBe("wrr");
  });

  test("the notes contain neither a PIN nor a hash of an accepted PIN, and only their owner can read them", async () => {
    const right = rightPin();
    hsm.writePin(WRONG);
    await open();
    hsm.writePin(right);
    await reopen();
    const { file } = home.config.token.pinTries;
    const text = readFileSync(file, "utf8");
    expect(text).not.toContain(WRONG);
    expect(JSON.parse(text)).toMatchObject({
      refused: [expect.stringMatching(/^[0-9a-f]{64}$/)],
      refuses: false,
    });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    await expect(unsealSealed(WRONG)).rejects.toBeInstanceOf(WrongPin);
  });

  async function unsealSealed(pin: string): Promise<unknown> {
    token!.seal("asked");
    return unseal(pin);
  }
});
