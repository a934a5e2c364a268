/**
 * A problem that a person can correct: shown as its message and its remedy, never as a stack trace. `message`
 * says what is wrong in one sentence, `remedy` what to do about it.
 */
export class Problem extends Error {
  readonly remedy: string | undefined;

  constructor(message: string, remedy?: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "Problem";
    this.remedy = remedy;
  }
}

type Trouble = { words: string; remedy: string };

const noRight: Trouble = {
  words: "this user has no right to it",
  remedy: "Start as the user it belongs to, or choose another folder with --data",
};
const full: Trouble = {
  words: "its file system is full",
  remedy: "Make room there, or choose another folder with --data",
};

/** Failures of a file system that a person can correct, by their code. */
const troubles: Record<string, Trouble> = {
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
export function fileProblem(thrown: unknown, path?: string): Problem | undefined {
  if (!(thrown instanceof Error)) return undefined;
  const { code = "", path: named } = thrown as NodeJS.ErrnoException;
  const trouble = troubles[code];
  const where = path ?? named;
  if (trouble === undefined || where === undefined) return undefined;
  return new Problem(`${where} cannot be used: ${trouble.words}`, trouble.remedy, { cause: thrown });
}

/** What anything thrown says in its own words: the message of the problem behind it, else its own. */
export function messageOf(thrown: unknown): string {
  return fileProblem(thrown)?.message ?? (thrown instanceof Error ? thrown.message : String(thrown));
}

/** The lines to show a person for anything thrown: a problem's message and remedy, else the whole error. */
export function describeProblem(thrown: unknown): string[] {
  const problem = thrown instanceof Problem ? thrown : fileProblem(thrown);
  if (problem === undefined) {
    return [thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown)];
  }
  return problem.remedy === undefined ? [problem.message] : [problem.message, problem.remedy];
}
