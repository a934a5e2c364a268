import { readdir, readFile } from "node:fs/promises";

const BYTES_A_KIB = 1024;
const BYTES_A_MB = 1_000_000;

/** A part that consists of one or more processes. Memory that several of them share counts once. */
export type Watched = { name: string; pids(): Promise<readonly number[]> };

/** Returns the current resident memory of each part, in MB. */
export async function residentOf(parts: readonly Watched[]): Promise<Map<string, number>> {
  const entries = parts.map(async ({ name, pids }) => {
    const processes = await pids();
    const field = processes.length === 1 ? "Rss" : "Pss";
    const sizes = await Promise.all(processes.map((pid) => sizeOf(pid, field)));
    return [name, sizes.reduce((sum, size) => sum + size, 0)] as const;
  });
  return new Map(await Promise.all(entries));
}

/** Returns 0 if the process has exited. */
async function sizeOf(pid: number, field: "Rss" | "Pss"): Promise<number> {
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, "utf8").catch(() => "");
  const [, kib = 0] = new RegExp(`^${field}:\\s+(\\d+)`, "m").exec(rollup) ?? [];
  return (Number(kib) * BYTES_A_KIB) / BYTES_A_MB;
}

/** Returns the process IDs of a process's running children. */
export async function childrenOf(pid: number): Promise<number[]> {
  const tasks = await readdir(`/proc/${pid}/task`);
  const lists = await Promise.all(
    tasks.map((task) => readFile(`/proc/${pid}/task/${task}/children`, "utf8").catch(() => "")),
  );
  return lists.flatMap((list) => list.split(" ")).flatMap((child) => (child === "" ? [] : [Number(child)]));
}
