import { readFileSync } from "node:fs";
import { type Profiler, Session } from "node:inspector";
import { fileURLToPath } from "node:url";

/** Coverage of the source files in one folder, from the runtime's profiler. */
export type Coverage = {
  /** Returns whether source that was never counted has run since the last call, without counting it. */
  sawNew(): boolean;
  /** Counts the source that ran since the last call. Returns the number of new characters. */
  countNew(): number;
  /** Returns the number of characters of source that have run. */
  total(): number;
  close(): void;
};

/** Starts block coverage of this thread for files whose URL begins with `folder`, also of loaded modules. */
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
 * Outer functions come before the functions inside them, so the counts of inner functions override those of
 * outer ones. The profiler calls back synchronously.
 */
function takeDelta(session: Session, folder: string): Profiler.ScriptCoverage[] {
  let scripts: Profiler.ScriptCoverage[] = [];
  session.post("Profiler.takePreciseCoverage", (error, answer) => {
    if (error !== null) throw error;
    scripts = answer.result;
  });
  return scripts.filter(({ url }) => url.startsWith(folder));
}
