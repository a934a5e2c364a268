import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { loadConfig } from "../../../keyvault/config.ts";
import { initialize } from "../../../keyvault/init.ts";
import { findSoftHsm } from "../../../keyvault/token/softhsm.ts";
import { debianProgram } from "../../support/debian.ts";
import { createHome, SILENT, type VaultHome } from "../fixture.ts";

/** A PKCS#11 module as Debian installs it, with what a vault's home needs before `keyvault init`. */
export type Module = {
  name: string;
  path: string | undefined;
  /** True if Debian packages the module. A test fails if such a module is missing. */
  packaged: boolean;
  /** Creates the module's token. Returns the vault's settings for this token. */
  prepare(home: VaultHome, path: string): Promise<Record<string, string>>;
};

const installed = (...paths: string[]) => paths.find((path) => existsSync(path));

const DEBIAN_LIBRARIES = `/usr/lib/${process.arch === "arm64" ? "aarch64" : "x86_64"}-linux-gnu`;

/** Path of pkcs11js, for scripts in their own processes. No test process loads a module. */
export const PKCS11JS = createRequire(import.meta.url).resolve("pkcs11js");

/** Modules that the vault supports. They are installed now if possible. */
export const WORKING: readonly Module[] = [
  { name: "SoftHSM", path: findSoftHsm(), packaged: true, prepare: async () => ({}) },
  {
    name: "NSS",
    path:
      installed("/usr/lib64/libsoftokn3.so", "/usr/lib/libsoftokn3.so") ??
      (await debianProgram(`${DEBIAN_LIBRARIES}/libsoftokn3.so`, "libnss3")),
    packaged: true,
    prepare: prepareNss,
  },
  {
    name: "Kryoptic",
    path: installed(
      process.env.KEYVAULT_TEST_KRYOPTIC ?? "",
      "/usr/lib64/pkcs11/libkryoptic_pkcs11.so",
      `${DEBIAN_LIBRARIES}/pkcs11/libkryoptic_pkcs11.so`,
    ),
    packaged: false,
    prepare: prepareKryoptic,
  },
];

/** Creates a home on which `keyvault init` has completed with this module's token. */
export async function createModuleHome({ name, path, prepare }: Module): Promise<VaultHome> {
  if (path === undefined) throw new Error(`${name} is not installed`);
  const home = await createHome({ made: "empty" });
  Object.assign(home.environment, { KEYVAULT_PKCS11_MODULE: path }, await prepare(home, path));
  home.config = loadConfig(home.environment);
  await initialize(home.config, { now: () => new Date() }, SILENT);
  return home;
}

/** Creates a database with a PIN, like `certutil -N`. A new NSS token's security officer has an empty PIN. */
const NSS_SCRIPT = `
  const pkcs11 = require(process.argv[1]);
  const library = new pkcs11.PKCS11();
  library.load(process.argv[2]);
  library.C_Initialize({ flags: pkcs11.CKF_OS_LOCKING_OK, libraryParameters: process.argv[3] });
  const slot = library.C_GetSlotList(true).find((slot) => library.C_GetTokenInfo(slot).label.trim() === "keyvault nss");
  const session = library.C_OpenSession(slot, pkcs11.CKF_SERIAL_SESSION | pkcs11.CKF_RW_SESSION);
  library.C_Login(session, pkcs11.CKU_SO, "");
  library.C_InitPIN(session, require("node:fs").readFileSync(process.argv[4], "utf8").trim());
  library.C_Finalize();`;

async function prepareNss(home: VaultHome, path: string): Promise<Record<string, string>> {
  const folder = join(home.dir, "nss");
  const { pinFile } = home.config.token;
  await mkdir(folder, { mode: 0o700 });
  await mkdir(dirname(pinFile), { mode: 0o700 });
  await writeFile(pinFile, `${"5e".repeat(32)}\n`, { mode: 0o600 });
  const parameters = `configdir='sql:${folder}' certPrefix='' keyPrefix='' secmod='secmod.db' flags= dbTokenDescription='keyvault nss'`;
  await promisify(execFile)(process.execPath, ["-e", NSS_SCRIPT, PKCS11JS, path, parameters, pinFile]);
  return { KEYVAULT_PKCS11_PARAMETERS: parameters, KEYVAULT_TOKEN_LABEL: "keyvault nss" };
}

/** Creates a token in a file with a PIN, like `pkcs11-tool --init-token --init-pin`. */
const KRYOPTIC_SCRIPT = `
  const pkcs11 = require(process.argv[1]);
  const library = new pkcs11.PKCS11();
  library.load(process.argv[2]);
  library.C_Initialize();
  const [slot] = library.C_GetSlotList(true);
  library.C_InitToken(slot, "officer-officer", "keyvault kryoptic".padEnd(32));
  const session = library.C_OpenSession(slot, pkcs11.CKF_SERIAL_SESSION | pkcs11.CKF_RW_SESSION);
  library.C_Login(session, pkcs11.CKU_SO, "officer-officer");
  library.C_InitPIN(session, require("node:fs").readFileSync(process.argv[3], "utf8").trim());
  library.C_Finalize();`;

async function prepareKryoptic(home: VaultHome, path: string): Promise<Record<string, string>> {
  const environment = { KRYOPTIC_CONF: join(home.dir, "kryoptic.sql") };
  const { pinFile } = home.config.token;
  await mkdir(dirname(pinFile), { mode: 0o700 });
  await writeFile(pinFile, `${"5e".repeat(32)}\n`, { mode: 0o600 });
  await promisify(execFile)(process.execPath, ["-e", KRYOPTIC_SCRIPT, PKCS11JS, path, pinFile], {
    env: environment,
  });
  return {
    ...environment,
    KEYVAULT_TOKEN_ENVIRONMENT: "KRYOPTIC_CONF",
    KEYVAULT_TOKEN_LABEL: "keyvault kryoptic",
  };
}

/** p11-kit's client for a SoftHSM token that `p11-kit server` serves. */
export type Remote = { environment: Record<string, string>; close(): Promise<void> };

const P11_KIT = await debianProgram("/usr/bin/p11-kit", "p11-kit");
const P11_KIT_CLIENT =
  installed("/usr/lib64/pkcs11/p11-kit-client.so") ??
  (await debianProgram(`${DEBIAN_LIBRARIES}/pkcs11/p11-kit-client.so`, "p11-kit-modules"));

/** Serves a home's SoftHSM token with `p11-kit server`. Returns `undefined` if p11-kit is unavailable. */
export async function serveRemotely(home: VaultHome): Promise<Remote | undefined> {
  if (P11_KIT_CLIENT === undefined || P11_KIT === undefined) return undefined;
  const { module, dir } = home.config.token;
  const server: ChildProcess = spawn(P11_KIT, ["server", "-f", "--provider", module, "pkcs11:"], {
    env: { SOFTHSM2_CONF: join(dir, "softhsm2.conf"), XDG_RUNTIME_DIR: home.dir },
    stdio: ["ignore", "pipe", "ignore"],
  });
  let said = "";
  for await (const text of server.stdout ?? []) {
    said += String(text);
    if (/P11_KIT_SERVER_ADDRESS=[^;]+;/.test(said)) break;
  }
  const address = /P11_KIT_SERVER_ADDRESS=([^;\s]+)/.exec(said)?.[1]?.replaceAll("\\", "") ?? "";
  return {
    environment: {
      KEYVAULT_PKCS11_MODULE: P11_KIT_CLIENT,
      P11_KIT_SERVER_ADDRESS: address,
      KEYVAULT_TOKEN_ENVIRONMENT: "P11_KIT_SERVER_ADDRESS",
    },
    async close() {
      const exit = once(server, "exit");
      server.kill("SIGTERM");
      await exit;
    },
  };
}
