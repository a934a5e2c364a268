import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { LOCKED_NODE, NODE_HASHES, NODE_PACKAGE } from "../setup/node.mjs";
import { UserError } from "../user_error.ts";

/** Folder for image archives and for buildah's storage. */
export const IMAGES_FOLDER = join(homedir(), ".cache", "deputize", "images");
const LAST_LINES = 15;

/** Runs a program with its output in a log. If it fails, throws `UserError` with the log's last lines. */
export async function runLogged(log: string, command: string, args: readonly string[]): Promise<void> {
  mkdirSync(dirname(log), { recursive: true });
  const file = openSync(log, "a", 0o600);
  const child = spawn(command, args, { stdio: ["ignore", file, file] });
  closeSync(file);
  const [code, signal] = await once(child, "exit").catch((error: unknown) => {
    throw new UserError(`${command} cannot be run`, "Install it with your system's package manager", {
      cause: error,
    });
  });
  if (code === 0) return;
  const end = readFileSync(log, "utf8").trimEnd().split("\n").slice(-LAST_LINES).join("\n");
  throw new UserError(`${command} ended with ${code ?? signal}:\n${end}`, `Its whole output is in ${log}`);
}

/** Arguments for separate storage, so that buildah touches no other images. */
const STORAGE = ["--root", join(IMAGES_FOLDER, "storage"), "--runroot", join(IMAGES_FOLDER, "run")];

/** Runs buildah with its output in a log. If buildah fails, throws `UserError` with the log's last lines. */
export async function buildah(log: string, ...args: string[]): Promise<void> {
  await runLogged(log, "buildah", [...STORAGE, ...args]);
}

async function hasImage(name: string): Promise<boolean> {
  const child = spawn("buildah", [...STORAGE, "inspect", "--type", "image", name], { stdio: "ignore" });
  const [code] = await once(child, "exit");
  return code === 0;
}

const SUITE = "bookworm";
const MIRROR = "http://deb.debian.org/debian";
const NPM = "11.19.1";

/** Debian with the libraries that Node loads, plus the headers of Debian's Node for compiling packages. */
const DEBIAN = [
  "--variant=apt",
  "--include=libatomic1,libstdc++6",
  "--dpkgopt=force-unsafe-io",
  '--customize-hook=chroot "$1" sh -c "cd /tmp && apt-get download libnode-dev && dpkg -x libnode-dev*.deb headers"',
  '--customize-hook=mkdir -p "$1/usr/local/include" && mv "$1/tmp/headers/usr/include/node" "$1/usr/local/include/"',
  // dpkg's path-exclude would filter every package, which takes minutes.
  '--customize-hook=rm -rf "$1"/usr/share/man/* "$1"/usr/share/locale/* "$1"/tmp/*',
];

const NOTHING = "scratch";
const RECIPE = `FROM ${NOTHING}
ADD debian.tar /
COPY node /usr/local/bin/node
ADD npm-${NPM}.tgz /usr/local/lib/node_modules
RUN cd /usr/local/lib/node_modules && mv package npm \\
  && chmod 755 /usr/local/bin/node npm/bin/npm-cli.js \\
  && ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
`;

/**
 * Builds a base image without access to an image registry, and returns its name. An earlier build is reused
 * until the locked Node or the recipe changes.
 */
export async function localBase(root: string, log: string): Promise<string> {
  const parts = [SUITE, MIRROR, NPM, DEBIAN, RECIPE, NODE_HASHES[NODE_PACKAGE]];
  const tag = createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 16);
  const name = `localhost/deputize-base:${tag}`;
  if (await hasImage(name)) return name;
  await mkdir(IMAGES_FOLDER, { recursive: true });
  const folder = await mkdtemp(join(IMAGES_FOLDER, "base-"));
  try {
    await runLogged(log, "mmdebstrap", [...DEBIAN, SUITE, join(folder, "debian.tar"), MIRROR]);
    await copyFile(join(root, LOCKED_NODE), join(folder, "node"));
    await runLogged(log, "npm", ["pack", "--pack-destination", folder, `npm@${NPM}`]);
    await writeFile(join(folder, "Dockerfile"), RECIPE);
    await buildah(log, "build", "--isolation", "chroot", "--tag", name, folder);
    return name;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
