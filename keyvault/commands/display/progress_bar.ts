/** A line on standard error that shows how far long work is, drawn only for a terminal. */
export type ProgressBar = { show(done: number, total: number): void; end(): void };

const WIDEST_BAR = 40;

/** A progress bar for this terminal. On anything but a terminal it shows nothing. */
export function createProgressBar(terminal: NodeJS.WriteStream = process.stderr): ProgressBar {
  if (!terminal.isTTY) return { show: () => {}, end: () => {} };
  return {
    show: (done, total) => terminal.write(`\r${drawProgress(done, total, terminal.columns || 80)}\x1b[K`),
    end: () => terminal.write("\n"),
  };
}

/** One line of at most `columns` characters: bar, share and counts. */
export function drawProgress(done: number, total: number, columns: number): string {
  const share = total === 0 ? 1 : Math.min(1, done / total);
  const text = ` ${String(Math.floor(share * 100)).padStart(3)} %  ${done} of ${total}`;
  const width = Math.max(0, Math.min(WIDEST_BAR, columns - text.length - 3));
  const filled = Math.floor(share * width);
  return `[${"#".repeat(filled)}${"-".repeat(width - filled)}]${text}`;
}
