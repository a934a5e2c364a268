import { createColors } from "picocolors";
import { describeError, messageOf } from "./user_error.ts";

/** The part of an output stream that the terminal uses. */
export type Output = {
  write(text: string): unknown;
  isTTY?: boolean;
  columns?: number;
};

export type TerminalOptions = {
  out: Output;
  err: Output;
  /** Enables color, which has no effect if `out` is not a terminal. */
  color: boolean;
  /** Prints one JSON object per step to `out`, and nothing else. */
  json: boolean;
};

/** A step in progress. Only the first call of `done` or `fail` has an effect. */
export type Step = {
  done(detail?: string): void;
  /** Ends the step. `why` is a detail to show, or an error, whose message is shown only in JSON mode. */
  fail(why: unknown): void;
};

/** Output about the work for a reader, or for a program in JSON mode. */
export type Terminal = {
  /**
   * Begins a step. `name` is its stable name in JSON, `title` its name for readers. When the step ends, it
   * prints a line with the duration, or the JSON object `{ step, ok, ms, detail }`. If two steps are in
   * progress, a terminal shows the later one.
   */
  step(name: string, title: string): Step;
  /** Prints a line for readers. Prints nothing in JSON mode. */
  line(text?: string): void;
  /** Prints a line to the error stream, in every mode. */
  warn(text: string): void;
  /** Clears the steps in progress. Call it before this process exits immediately. */
  halt(): void;
  /** Prints a `UserError`'s message and remedy, or any other error's stack, to the error stream. */
  problem(thrown: unknown): void;
};

const FRAMES = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const ERASE = "\r\x1b[2K";
const FRAME_MS = 80;
const REMIND_MS = 15_000;

type Face = {
  halt(): void;
  step(name: string, title: string): Step;
  print(stream: Output, text: string): void;
};

/** Creates a terminal that writes to two streams. */
export function createTerminal({ out, err, color, json }: TerminalOptions): Terminal {
  const face = json ? jsonFace(out) : out.isTTY === true ? liveFace(out, color) : plainFace(out);
  const paint = createColors(color && err.isTTY === true);
  return {
    step: face.step,
    halt: face.halt,
    line: (text = "") => {
      if (!json) {
        face.print(out, text);
      }
    },
    warn: (text) => face.print(err, paint.yellow(text)),
    problem(thrown) {
      const [message = "", ...rest] = describeError(thrown);
      face.print(err, [paint.red(message), ...rest].join("\n"));
    },
  };
}

/**
 * Runs `work` as a step. `detail` derives the step's detail from the result. If `work` throws, the step fails
 * and the error is rethrown. After `interrupted` aborts, the failed step shows "stopped".
 */
export async function inStep<T>(
  step: Step,
  { detail, interrupted }: { detail?: (answer: T) => string; interrupted?: AbortSignal },
  work: () => Promise<T>,
): Promise<T> {
  try {
    const answer = await work();
    step.done(detail?.(answer));
    return answer;
  } catch (error) {
    step.fail(interrupted?.aborted ? "stopped" : error);
    throw error;
  }
}

/** Returns a step that reports only the first call of `done` or `fail`. */
function timed(report: (ok: boolean, ms: number, detail: unknown) => void): Step {
  const began = performance.now();
  let ended = false;
  function end(ok: boolean, detail: unknown): void {
    if (!ended) {
      ended = true;
      report(ok, Math.round(performance.now() - began), detail);
    }
  }
  return { done: (detail = "") => end(true, detail), fail: (why) => end(false, why) };
}

function jsonFace(out: Output): Face {
  return {
    step: (name) =>
      timed((ok, ms, why) => {
        const detail = printable(messageOf(why));
        out.write(`${JSON.stringify({ step: name, ok, ms, detail })}\n`);
      }),
    print: (stream, text) => void stream.write(`${text}\n`),
    halt: () => undefined,
  };
}

function plainFace(out: Output): Face {
  function print(stream: Output, text: string): void {
    stream.write(`${text}\n`);
  }
  return {
    print,
    halt: () => undefined,
    step(_, title) {
      const began = performance.now();
      const reminder = setInterval(() => {
        print(out, `...  ${title} ${duration(performance.now() - began)}`);
      }, REMIND_MS).unref();
      return timed((ok, ms, detail) => {
        clearInterval(reminder);
        print(out, `${ok ? "ok  " : "FAIL"} ${title} ${duration(ms)}`);
        for (const line of linesOf(detail)) print(out, `     ${line}`);
      });
    },
  };
}

function liveFace(out: Output, color: boolean): Face {
  const paint = createColors(color);
  let draw: (() => void) | undefined;

  function print(stream: Output, text: string): void {
    if (draw !== undefined) {
      out.write(ERASE);
    }
    stream.write(`${text}\n`);
    draw?.();
  }

  function halt(): void {
    if (draw === undefined) return;
    draw = undefined;
    out.write(ERASE);
  }

  function step(_: string, title: string): Step {
    const began = performance.now();
    function drawSelf(): void {
      const elapsed = performance.now() - began;
      const frame = FRAMES[Math.floor(elapsed / FRAME_MS) % FRAMES.length] ?? "";
      out.write(`${ERASE}${paint.cyan(frame)} ${shorten(`${title} ${duration(elapsed)}`, out.columns)}`);
    }
    const spin = setInterval(() => {
      if (draw === drawSelf) {
        drawSelf();
      }
    }, FRAME_MS).unref();
    draw = drawSelf;
    drawSelf();
    return timed((ok, ms, detail) => {
      clearInterval(spin);
      if (draw === drawSelf) halt();
      print(out, `${ok ? paint.green("✔") : paint.red("✘")} ${title} ${paint.dim(duration(ms))}`);
      for (const line of linesOf(detail)) print(out, `  ${ok ? paint.dim(line) : paint.red(line)}`);
    });
  }
  return { print, step, halt };
}

function linesOf(detail: unknown): string[] {
  return typeof detail === "string" && detail !== "" ? [printable(detail)] : [];
}

function duration(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

function shorten(text: string, columns = 80): string {
  const room = columns - 3;
  return text.length <= room ? text : `${text.slice(0, room - 1)}…`;
}

function printable(text: string): string {
  return text.replaceAll(/\p{Cc}+/gu, " ");
}
