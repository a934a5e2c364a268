import { spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, closeSync, constants, existsSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { BUILT_TOKEN_LIBRARY } from "./packages.mjs";
import { SetupError, showProgress } from "./report.mjs";

/** Paths of SoftHSM on Debian and Ubuntu, Fedora and Arch, from a source build, and from Homebrew. */
const MODULES = [
  "/usr/lib/softhsm/libsofthsm2.so",
  "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
  "/usr/lib/aarch64-linux-gnu/softhsm/libsofthsm2.so",
  "/usr/lib64/pkcs11/libsofthsm2.so",
  "/usr/lib64/softhsm/libsofthsm2.so",
  "/usr/lib/pkcs11/libsofthsm2.so",
  "/usr/local/lib/softhsm/libsofthsm2.so",
  "/opt/homebrew/lib/softhsm/libsofthsm2.so",
];

/** Package managers, each with its names for the packages that may be missing. */
const MANAGERS = [
  {
    command: "apt-get",
    install: "apt-get install -y",
    token: "softhsm2",
    compiler: "make g++ python3",
    builder: "buildah mmdebstrap",
    publisher: "skopeo",
  },
  {
    command: "dnf",
    install: "dnf install -y",
    token: "softhsm",
    compiler: "make gcc-c++ python3",
    builder: "buildah",
    publisher: "skopeo",
  },
  {
    command: "pacman",
    install: "pacman -S --needed",
    token: "softhsm",
    compiler: "make gcc python",
    builder: "buildah",
    publisher: "skopeo",
  },
  {
    command: "brew",
    install: "brew install",
    token: "softhsm",
    compiler: "make gcc python",
    builder: "buildah",
    publisher: "skopeo",
  },
];

const APT_OPTIONS = ["-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"];

/** Returns the PKCS#11 module to use: the configured one, else SoftHSM at a usual path. */
export function findModule() {
  return process.env.KEYVAULT_PKCS11_MODULE || MODULES.find((path) => existsSync(path));
}

const THINGS = {
  token: "SoftHSM (a PKCS#11 token)",
  compiler: "A C++ compiler with make and Python 3",
  builder: "buildah (a builder of images)",
  publisher: "skopeo (a tool that copies images)",
};

/**
 * Checks for SoftHSM if a token is needed, and for a C++ compiler until the PKCS#11 library is built. With
 * `builder` or `publisher`, also checks for a program that builds or copies images. If this process is root,
 * installs missing packages with apt. Throws `SetupError` with the command to run if packages are still
 * missing.
 *
 * @param {string} root
 * @param {{ token: boolean, builder?: boolean, publisher?: boolean }} needs
 */
export async function installSystemPackages(root, { token, builder = false, publisher = false }) {
  const lacksToken = () => token && findModule() === undefined;
  const lacksCompiler = () => !existsSync(join(root, BUILT_TOKEN_LIBRARY)) && !hasCompiler();
  const lacksBuilder = () => builder && !isCommand("buildah");
  const lacksPublisher = () => publisher && !isCommand("skopeo");
  const lacking = () =>
    /** @type {const} */ ([
      ["token", lacksToken],
      ["compiler", lacksCompiler],
      ["builder", lacksBuilder],
      ["publisher", lacksPublisher],
    ]).flatMap(([what, lacks]) => (lacks() ? [what] : []));
  const wanted = lacking();
  if (wanted.length === 0) {
    return;
  }
  const manager = MANAGERS.find(({ command }) => isCommand(command));
  const names = manager === undefined ? "" : wanted.map((what) => manager[what]).join(" ");
  const isRoot = process.getuid?.() === 0;
  if (isRoot && manager?.command === "apt-get") {
    await installByApt(root, names.split(" "));
    if (lacking().length === 0) {
      return;
    }
  }
  const needs = wanted.map((what) => THINGS[what]);
  throw new SetupError(
    `${needs.join(" and ")} ${wanted.length === 1 ? "is" : "are"} needed and not installed.`,
    manager === undefined
      ? "Install it with your system's package manager; for another PKCS#11 module set KEYVAULT_PKCS11_MODULE to its path."
      : `Run this once, then the same command again:\n\n  ${isRoot || manager.command === "brew" ? "" : "sudo "}${manager.install} ${names}\n`,
  );
}

function hasCompiler() {
  return isCommand("make") && isCommand("python3") && ["c++", "g++", "clang++"].some(isCommand);
}

/** @param {string} name */
function isCommand(name) {
  return (process.env.PATH ?? "").split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return folder !== "";
    } catch {
      return false;
    }
  });
}

/**
 * @param {string} root
 * @param {string[]} names
 */
async function installByApt(root, names) {
  const folder = join(root, ".deputize", "setup");
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, "apt.log");
  const log = openSync(path, "w", 0o600);
  const apt = (/** @type {string[]} */ ...args) => runToTheEnd("apt-get", args, log);
  const done = showProgress(`Installing ${names.join(", ")}`);
  const installed =
    (await apt("install", ...APT_OPTIONS, ...names)) ||
    ((await apt("update", "-y")) && (await apt("install", ...APT_OPTIONS, ...names)));
  closeSync(log);
  done(installed ? "done" : "failed");
  if (!installed) {
    const lines = readFileSync(path, "utf8").split("\n");
    throw new SetupError(
      `apt-get could not install ${names.join(", ")}:\n${lines.filter((line) => line.startsWith("E:")).join("\n")}`,
      `Its whole output is in ${path}`,
    );
  }
}

/**
 * Runs a command in a separate session, so Ctrl-C cannot interrupt a write to the package database.
 *
 * @param {string} command
 * @param {string[]} args
 * @param {number} log
 */
async function runToTheEnd(command, args, log) {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive", LC_ALL: "C" };
  const child = spawn(command, args, { env, detached: true, stdio: ["ignore", log, log] });
  const [code] = await once(child, "exit");
  return code === 0;
}
