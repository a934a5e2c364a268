/**
 * Something a person can put right: shown as its message and its remedy, never as a stack trace.
 * `message` says what is wrong in one sentence, `remedy` what to do about it.
 */
export class Problem extends Error {
  readonly remedy: string | undefined;

  constructor(message: string, remedy?: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "Problem";
    this.remedy = remedy;
  }
}

/** The lines to show a person for anything thrown: a problem's message and remedy, else the whole error. */
export function describeProblem(thrown: unknown): string[] {
  if (!(thrown instanceof Problem)) {
    return [thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown)];
  }
  return thrown.remedy === undefined ? [thrown.message] : [thrown.message, thrown.remedy];
}
