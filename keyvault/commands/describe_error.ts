import { existsSync } from "node:fs";
import { dirname } from "node:path";
import type { ErrorOfSetting } from "../db/database.ts";
import { exitStatus, UserError } from "../errors.ts";

const DATABASE_HINTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there",
  ECONNRESET: "it ended the connection",
  EHOSTUNREACH: "no route to host",
  ENETUNREACH: "no route to host",
  ENOTFOUND: "there is no such host",
  EAI_AGAIN: "its host name cannot be resolved",
  ETIMEDOUT: "it does not answer",
  "28P01": "the password is wrong",
  "28000": "the role may not connect",
  "3D000": "there is no such database",
  "3F000": "no schema of the role's search_path exists",
  "25006": "it accepts no changes, because it is a standby or default_transaction_read_only is on",
  "42501": 'the role lacks a right: run "keyvault migrate" as the role that owns the database',
  "53100": "its disk is full",
  "53300": "it has too many connections",
  "57P03": "it is starting or stopping",
  "55000": "it does not accept connections",
};
/**
 * SQLSTATE classes for the server's state: connection, resources, operator intervention, and system errors.
 */
const SERVER_TROUBLE = /^(08|53|55|57|58)[0-9A-Z]{3}$/;

const FILE_HINTS: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file",
  ENOTDIR: "part of its path is not a folder",
  EISDIR: "it is a folder",
  EEXIST: "it exists already",
  EACCES: "permission denied",
  EPERM: "permission denied",
  EROFS: "its file system is read-only",
  ENOSPC: "the disk is full",
  EDQUOT: "the disk's quota is used up",
  EIO: "the disk reports an error",
};

/** Errors of a wrong URL or of a role that is not set up. Waiting does not mend them. */
const WRONG_SETTING = new Set(["28P01", "28000", "3D000", "3F000", "25006"]);

/** System calls whose errors do not contain the file's path. */
const WRITING = new Set(["write", "fsync", "fdatasync", "ftruncate"]);

type SystemError = NodeJS.ErrnoException & ErrorOfSetting;

/**
 * Returns a one-line message for the user about an error that stopped a command, or `undefined` for a fault
 * that needs its stack trace. The line may contain addresses, paths and codes, never passwords.
 */
export function describeError(error: unknown): string | undefined {
  if (error instanceof UserError) return error.message;
  const { code, syscall, path, name, message, setting } = error as SystemError;
  if (path !== undefined) return describeFileError(error);
  const trouble = syscall !== undefined && WRITING.has(syscall) && FILE_HINTS[code ?? ""];
  if (trouble) return `A file could not be written: ${trouble}`;
  if (name === "KnexTimeoutError" || message === "timeout expired") {
    return describeDatabase("it does not answer", setting);
  }
  if (message.startsWith("Connection terminated")) {
    return describeDatabase("it ended the connection", setting);
  }
  const hint = code === undefined ? undefined : databaseHint(code);
  return hint === undefined ? undefined : describeDatabase(`${hint} (${code})`, setting);
}

/** Returns the exit status for an error that {@link describeError} describes. */
export function statusOf(error: unknown): number {
  if (error instanceof UserError) return error.exitStatus;
  const { code, path, syscall } = error as SystemError;
  if (WRONG_SETTING.has(code ?? "")) return exitStatus.setting;
  const isFile = path !== undefined || (syscall !== undefined && WRITING.has(syscall));
  return isFile ? exitStatus.failed : exitStatus.unavailable;
}

/** Returns a one-line message with the path for a file system error, or `undefined` for any other error. */
export function describeFileError(error: unknown): string | undefined {
  const { code, path } = error as SystemError;
  if (code === undefined || path === undefined) return undefined;
  const folder = dirname(path);
  if (code === "ENOENT" && !existsSync(folder)) return `${folder}: there is no such folder`;
  return `${path}: ${FILE_HINTS[code] ?? code}`;
}

function databaseHint(code: string): string | undefined {
  return DATABASE_HINTS[code] ?? (SERVER_TROUBLE.test(code) ? "it cannot do its work" : undefined);
}

function describeDatabase(hint: string, setting = "KEYVAULT_DATABASE_URL"): string {
  return `The database of ${setting} cannot be used: ${hint}`;
}
