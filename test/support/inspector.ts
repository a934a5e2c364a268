import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const LONGER_THAN_OPENING_MS = 700;
const LISTENING = "0A";

/**
 * Sends SIGUSR1, which opens Node's inspector unless that is disabled. Returns the ports that then listen.
 */
export async function portsAfterSigusr1(pid: number): Promise<number[]> {
  process.kill(pid, "SIGUSR1");
  await sleep(LONGER_THAN_OPENING_MS);
  return listeningPorts(pid);
}

export function listeningPorts(pid: number): number[] {
  const sockets = new Set(
    readdirSync(`/proc/${pid}/fd`).flatMap((name) => {
      try {
        return [/^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${name}`))?.[1]];
      } catch {
        return [];
      }
    }),
  );
  return ["tcp", "tcp6"]
    .flatMap((table) => readFileSync(`/proc/${pid}/net/${table}`, "utf8").trim().split("\n").slice(1))
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , , state, , , , , , inode]) => state === LISTENING && sockets.has(inode))
    .map(([, local]) => Number.parseInt(local?.split(":")[1] ?? "", 16));
}
