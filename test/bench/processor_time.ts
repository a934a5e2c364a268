import { readdir, readFile } from "node:fs/promises";

/** Linux measures processor time in steps of 10 ms. */
const STEP_MICROSECONDS = 10_000;

/** Returns a process's processor time so far in microseconds, of all threads and in user and system mode. */
export async function processorTime(pid: number): Promise<number> {
  return (await readStat(pid))?.microseconds ?? 0;
}

/** Returns {@link processorTime} of a process and all its children, including those that have exited. */
export async function processorTimeWithChildren(pid: number): Promise<number> {
  const names = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const stats = await Promise.all(names.map((name) => readStat(Number(name))));
  const running = stats.filter((stat) => stat?.pid === pid || stat?.parent === pid);
  const ended = stats.find((stat) => stat?.pid === pid)?.ofEndedChildren ?? 0;
  return running.reduce((sum, stat) => sum + (stat?.microseconds ?? 0), ended);
}

/** Returns for how many milliseconds a process's first thread, the event loop, has run so far. */
export async function firstThreadTime(pid: number): Promise<number> {
  const [nanoseconds] = (await readFile(`/proc/${pid}/task/${pid}/schedstat`, "utf8")).split(" ");
  return Number(nanoseconds) / 1_000_000;
}

type Stat = { pid: number; parent: number; microseconds: number; ofEndedChildren: number };

async function readStat(pid: number): Promise<Stat | undefined> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const steps = (first: number) => (Number(fields[first]) + Number(fields[first + 1])) * STEP_MICROSECONDS;
    return { pid, parent: Number(fields[1]), microseconds: steps(11), ofEndedChildren: steps(13) };
  } catch {
    return undefined;
  }
}
