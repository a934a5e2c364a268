import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { UserError } from "../user_error.ts";

/** Where images and what they are built from are kept. */
export const IMAGES_FOLDER = join(homedir(), ".cache", "deputize", "images");
const LAST_LINES = 15;

/**
 * Runs a program to its end with its output in a log. Throws `UserError` with the log's end when it fails.
 */
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

/** The arguments that every call of buildah begins with: storage of our own, beside nobody else's images. */
export const STORAGE = ["--root", join(IMAGES_FOLDER, "storage"), "--runroot", join(IMAGES_FOLDER, "run")];

/** Runs buildah, see {@link runLogged}. */
export async function buildah(log: string, ...args: string[]): Promise<void> {
  await runLogged(log, "buildah", [...STORAGE, ...args]);
}

/** Whether buildah's storage has an image of that name. */
export async function hasImage(name: string): Promise<boolean> {
  const child = spawn("buildah", [...STORAGE, "inspect", "--type", "image", name], { stdio: "ignore" });
  const [code] = await once(child, "exit");
  return code === 0;
}
