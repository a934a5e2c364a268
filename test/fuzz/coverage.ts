import { readFileSync } from "node:fs";
import { type Profiler, Session } from "node:inspector";
import { fileURLToPath } from "node:url";

/** What the runtime's profiler has seen executed of the sources under one folder. */
export type Coverage = {
  /** Whether source ran since the last call that was never counted, without counting it. */
  sawNew(): boolean;
  /** Counts the source that ran since the last call; how many characters of it are new. */
  countNew(): number;
  /** How many characters of source have run in all. */
  total(): number;
  close(): void;
};

/**
 * Starts block coverage of this thread for files whose URL begins with `folder`. Modules loaded before count
 * as well.
 */
export function startCoverage(folder: string): Coverage {
  const session = new Session();
  session.connect();
  session.post("Profiler.enable");
  session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
  const seen = new Map<string, Uint8Array>();
  let covered = 0;

  return { sawNew, countNew, total: () => covered, close: () => session.disconnect() };

  function sawNew(): boolean {
    return takeDelta(session, folder).some((script) => newPositions(script).length > 0);
  }

  function countNew(): number {
    let found = 0;
    for (const script of takeDelta(session, folder)) {
      const known = knownOf(script.url);
      const positions = newPositions(script);
      for (const at of positions) known[at] = 1;
      found += positions.length;
    }
    covered += found;
    return found;
  }

  function newPositions({ url, functions }: Profiler.ScriptCoverage): number[] {
    const known = knownOf(url);
    const ran = new Uint8Array(known.length);
    for (const { startOffset, endOffset, count } of functions.flatMap(({ ranges }) => ranges)) {
      ran.fill(count > 0 ? 1 : 0, startOffset, endOffset);
    }
    const found: number[] = [];
    for (let at = 0; at < ran.length; at += 1) {
      if (ran[at] === 1 && known[at] === 0) found.push(at);
    }
    return found;
  }

  function knownOf(url: string): Uint8Array {
    const known = seen.get(url) ?? new Uint8Array(readFileSync(fileURLToPath(url)).length);
    seen.set(url, known);
    return known;
  }
}

/**
 * Outer functions come before the functions inside them, whose own counts then hold. The call answers before
 * it returns.
 */
function takeDelta(session: Session, folder: string): Profiler.ScriptCoverage[] {
  let scripts: Profiler.ScriptCoverage[] = [];
  session.post("Profiler.takePreciseCoverage", (error, answer) => {
    if (error !== null) throw error;
    scripts = answer.result;
  });
  return scripts.filter(({ url }) => url.startsWith(folder));
}
