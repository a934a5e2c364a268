const FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏";
const REMIND_SECONDS = 15;

/**
 * A problem that a person must correct before anything can start. It has a message of one sentence and a
 * remedy.
 */
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
 * Shows on standard error that a step is in progress. On a terminal this is a spinner with seconds, elsewhere
 * plain lines. Returns a function that ends the display and prints the outcome.
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
