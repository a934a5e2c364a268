import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { loadConfig } from "../../../keyvault/config.ts";
import { findSoftHsm } from "../../../keyvault/token/softhsm.ts";
import type { VaultHome } from "../../keyvault/fixture.ts";
import { debianProgram } from "../debian.ts";
import { runPart } from "../run_parts.ts";

const SOURCE = fileURLToPath(new URL("./counting_hsm.c", import.meta.url));

/** Path of the C compiler, or undefined. Tests that need it are then skipped, and `.ci/run` fails. */
export const COMPILER = await debianProgram("/usr/bin/gcc", "gcc");
if (COMPILER === undefined) console.warn("SKIPPED: without /usr/bin/gcc there is no HSM that counts PINs");

/** Functions whose calls can fail or wait. */
type Faulty = "C_Initialize" | "C_GetSlotList" | "C_GetTokenInfo" | "C_Login" | "C_Sign";

/** An HSM that counts wrong PINs, sets the flags of PKCS#11, and locks the PIN after three wrong ones. */
export type CountingHsm = {
  /** Returns one letter for each login: r right PIN, w wrong PIN, l refused because the PIN is locked. */
  tries(): string;
  /** Sets the state: `"ww"` is an HSM with two wrong PINs since the last right one. */
  setTries(letters: string): void;
  /** Makes a function return a code, after a time. Without a code, the function works again. */
  fail(name: Faulty, code?: number, ms?: number): void;
  /** Adds a slot before the real one. With code 0 it shows the same token, otherwise it returns the code. */
  addSlot(code: number): void;
  /** Removes the slot that `addSlot` added. */
  removeSlot(): void;
  /** Shows another serial number, as another HSM with the same label does. Without one, shows its own. */
  setSerial(serial?: string): void;
  /** Adds flags to the token's flags. */
  setFlags(flags: number): void;
  /** Writes a PIN to the vault's PIN file. Without a PIN, writes the right one. */
  writePin(pin?: string): void;
};

/** Puts the HSM in front of an initialized home's SoftHSM token, and changes the home's settings. */
export function insertCountingHsm(home: Pick<VaultHome, "dir" | "environment" | "config">): CountingHsm {
  const module = join(runPart("runFolder"), `hsm-${process.pid}.so`);
  execFileSync(COMPILER ?? "", ["-O1", "-shared", "-fPIC", "-o", module, SOURCE, "-ldl"]);
  const folder = join(home.dir, "hsm");
  mkdirSync(folder);
  const write = (name: string, text: string) => writeFileSync(join(folder, name), text);
  const { pinFile, dir } = home.config.token;
  const softHsm = join(dir, "softhsm2.conf");
  write(
    "softhsm2.conf",
    readFileSync(softHsm, "utf8").replace(/^(directories.tokendir = ).*$/m, `$1${dir}/objects`),
  );
  Object.assign(home.environment, {
    KEYVAULT_PKCS11_MODULE: module,
    KEYVAULT_TOKEN_ENVIRONMENT: "HSM_DIR,HSM_MODULE,SOFTHSM2_CONF",
    HSM_DIR: folder,
    HSM_MODULE: findSoftHsm(),
    SOFTHSM2_CONF: join(folder, "softhsm2.conf"),
  });
  home.config = loadConfig(home.environment);
  const right = readFileSync(pinFile, "utf8");
  write("tries", "");
  return {
    tries: () => readFileSync(join(folder, "tries"), "utf8"),
    setTries: (letters) => write("tries", letters),
    fail(name, code, ms = 0) {
      if (code === undefined) rmSync(join(folder, name), { force: true });
      else write(name, `0x${code.toString(16)} ${ms}`);
    },
    addSlot: (code) => write("second", `0x${code.toString(16)}`),
    removeSlot: () => rmSync(join(folder, "second"), { force: true }),
    setSerial: (serial = "") => write("serial", serial),
    setFlags: (flags) => write("flags", `0x${flags.toString(16)}`),
    writePin: (pin = right) => writeFileSync(pinFile, pin, { mode: 0o600 }),
  };
}
