const FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏";
const REMIND_SECONDS = 15;

/** A problem that a person must correct before anything can start. The message is one sentence. */
export class SetupError extends Error {
  /**
   * @param {string} message
   * @param {string} remedy
   */
  constructor(message, remedy) {
    super(message);
    this.remedy = remedy;
  }
}

/**
 * Shows a step in progress on standard error. The returned function ends the display and prints the outcome.
 *
 * @param {string} title
 * @returns {(outcome: string) => void}
 */
export function showProgress(title) {
  const began = performance.now();
  const elapsed = () => Math.round((performance.now() - began) / 1000);
  const live = process.stderr.isTTY === true;
  let frame = 0;
  if (!live) {
    process.stderr.write(`${title} ...\n`);
  }
  const timer = setInterval(
    () => {
      const spin = live ? `\r\x1b[2K${FRAMES[frame % FRAMES.length]} ` : "";
      process.stderr.write(`${spin}${title} ... ${elapsed()} s${live ? "" : "\n"}`);
      frame += 1;
    },
    live ? 100 : REMIND_SECONDS * 1000,
  );
  return (outcome) => {
    clearInterval(timer);
    process.stderr.write(`${live ? "\r\x1b[2K" : ""}${title}: ${outcome}, ${elapsed()} s\n`);
  };
}
