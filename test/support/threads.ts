import { readdirSync, readFileSync } from "node:fs";

/** A thread's name and how much it gives way to others, 0 to 19. */
export type ThreadSeen = { name: string; niceness: number };

/** The threads of a process of this machine, as Linux shows them. */
export function nicenessOfThreads(pid: number): ThreadSeen[] {
  return readdirSync(`/proc/${pid}/task`).map((id) => {
    const stat = readFileSync(`/proc/${pid}/task/${id}/stat`, "utf8");
    const end = stat.lastIndexOf(")");
    // The 19th field; the third comes after the name.
    const niceness = Number(stat.slice(end + 2).split(" ")[16]);
    return { name: stat.slice(stat.indexOf("(") + 1, end), niceness };
  });
}
