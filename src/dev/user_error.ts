/**
 * A problem that a person can correct: shown as its message and its remedy, never as a stack trace. `message`
 * says what is wrong in one sentence, `remedy` what to do about it.
 */
export class UserError extends Error {
  readonly remedy: string | undefined;

  constructor(message: string, remedy?: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "UserError";
    this.remedy = remedy;
  }
}

type FileHint = { words: string; remedy: string };

const noRight: FileHint = {
  words: "this user has no right to it",
  remedy: "Start as the user it belongs to, or choose another folder with --data",
};
const full: FileHint = {
  words: "its file system is full",
  remedy: "Make room there, or choose another folder with --data",
};

/** Failures of a file system that a person can correct, by their code. */
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
 * The problem behind a file system's failure at `path`, or at the path that the failure itself names;
 * undefined for a failure that no person can correct.
 */
export function fileError(thrown: unknown, path?: string): UserError | undefined {
  if (!(thrown instanceof Error)) return undefined;
  const { code = "", path: named } = thrown as NodeJS.ErrnoException;
  const hint = fileHints[code];
  const where = path ?? named;
  if (hint === undefined || where === undefined) return undefined;
  return new UserError(`${where} cannot be used: ${hint.words}`, hint.remedy, { cause: thrown });
}

/** What anything thrown says in its own words: the message of the problem behind it, else its own. */
export function messageOf(thrown: unknown): string {
  return fileError(thrown)?.message ?? (thrown instanceof Error ? thrown.message : String(thrown));
}

/** The lines to show a person for anything thrown: a problem's message and remedy, else the whole error. */
export function describeError(thrown: unknown): string[] {
  const shown = thrown instanceof UserError ? thrown : fileError(thrown);
  if (shown === undefined) {
    return [thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown)];
  }
  return shown.remedy === undefined ? [shown.message] : [shown.message, shown.remedy];
}
