import { exitStatus } from "../input/exit_status.ts";

/**
 * A problem that a person can correct. Its message and remedy are shown, but never a stack trace. `message`
 * states the problem in one sentence.
 */
export class UserError extends Error {
  readonly remedy: string | undefined;
  readonly status: number;

  /** `status` is the exit status of the command. */
  constructor(message: string, remedy?: string, options: ErrorOptions & { status?: number } = {}) {
    super(message, options);
    this.name = "UserError";
    this.remedy = remedy;
    this.status = options.status ?? exitStatus.failed;
  }
}

/** Returns the exit status of a command after an error. */
export function statusOf(error: unknown): number {
  return error instanceof UserError ? error.status : exitStatus.failed;
}

type FileHint = { words: string; remedy: string };

const noRight: FileHint = {
  words: "this user may not access it",
  remedy: "Start as the user it belongs to, or choose another folder with --data",
};
const full: FileHint = {
  words: "its file system is full",
  remedy: "Free some space there, or choose another folder with --data",
};

/** Hints for file system errors that a person can correct, by error code. */
const fileHints: Record<string, FileHint> = {
  EROFS: {
    words: "its file system is read-only",
    remedy: "Choose a folder that can be written to with --data",
  },
  EACCES: noRight,
  EPERM: noRight,
  ENOSPC: full,
  EDQUOT: full,
  ENOTDIR: { words: "it, or a folder above it, is a file", remedy: "Choose another folder with --data" },
  EISDIR: { words: "it is a folder", remedy: "Move it away, or choose another folder with --data" },
};

/**
 * Converts a file system error that a person can correct. Returns undefined for any other error. `path` is
 * shown instead of the path in the error.
 */
export function fileError(thrown: unknown, path?: string): UserError | undefined {
  if (!(thrown instanceof Error)) return undefined;
  const { code = "", path: named } = thrown as NodeJS.ErrnoException;
  const hint = fileHints[code];
  const where = path ?? named;
  if (hint === undefined || where === undefined) return undefined;
  return new UserError(`${where} cannot be used: ${hint.words}`, hint.remedy, { cause: thrown });
}

/** Returns the message for anything thrown. A file system error is converted first. */
export function messageOf(thrown: unknown): string {
  return fileError(thrown)?.message ?? (thrown instanceof Error ? thrown.message : String(thrown));
}

/** Returns a user error's message and remedy, or any other error's stack. */
export function describeError(thrown: unknown): string[] {
  const shown = thrown instanceof UserError ? thrown : fileError(thrown);
  if (shown === undefined) {
    return [thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown)];
  }
  return shown.remedy === undefined ? [shown.message] : [shown.message, shown.remedy];
}
