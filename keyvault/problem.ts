/** Something a person can put right: shown as its message, never as a stack trace. The message never holds a secret. */
export class Problem extends Error {
  override readonly name: string = "Problem";
}
