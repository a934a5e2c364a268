import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { UserError } from "../user_error.ts";
import type { ServerUser } from "./binaries.ts";

const run = promisify(execFile);

/** Accounts for a server, in order of preference. If none exists, this program creates the last one. */
const ACCOUNTS = ["postgres", "deputize"] as const;

/**
 * Chooses the account for Postgres, which refuses to run as root. Returns undefined if this process is not
 * root. For root, returns an existing `postgres` or `deputize` account, or a new system account `deputize`.
 */
export async function serverUser(): Promise<ServerUser> {
  if (process.getuid?.() !== 0) {
    return undefined;
  }
  if (process.platform !== "linux") {
    throw new UserError("Postgres does not run as root", "Start it as an ordinary user, without sudo");
  }
  for (const name of ACCOUNTS) {
    const found = await lookUp(name);
    if (found !== undefined) {
      return found;
    }
  }
  return createAccount(ACCOUNTS[1]);
}

async function createAccount(name: string): Promise<ServerUser> {
  const line = ["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"];
  const args = [...line, "--shell", "/usr/sbin/nologin", name];
  try {
    await run("useradd", args);
  } catch (cause) {
    const raced = await lookUp(name);
    if (raced !== undefined) {
      return raced;
    }
    throw new UserError(
      `Postgres does not run as root, and a system account "${name}" could not be created`,
      `Run: useradd ${args.join(" ")}`,
      { cause },
    );
  }
  return lookUp(name);
}

async function lookUp(name: string): Promise<ServerUser> {
  try {
    const [uid, gid] = await Promise.all([run("id", ["-u", name]), run("id", ["-g", name])]);
    return { uid: Number(uid.stdout), gid: Number(gid.stdout) };
  } catch {
    return undefined;
  }
}
