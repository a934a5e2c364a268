import { readdirSync, readFileSync } from "node:fs";

/** Name and niceness (0 to 19) of a thread. */
export type ThreadSeen = { name: string; niceness: number };

export function nicenessOfThreads(pid: number): ThreadSeen[] {
  return readdirSync(`/proc/${pid}/task`).map((id) => {
    const stat = readFileSync(`/proc/${pid}/task/${id}/stat`, "utf8");
    const end = stat.lastIndexOf(")");
    // Niceness is field 19 of the file. The first field after the thread's name is field 3.
    const niceness = Number(stat.slice(end + 2).split(" ")[16]);
    return { name: stat.slice(stat.indexOf("(") + 1, end), niceness };
  });
}
