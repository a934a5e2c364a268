import type { ChildProcess } from "node:child_process";

/** Where a standard stream goes: a file descriptor or one of Node's words. */
export type Stream = "ignore" | "inherit" | "pipe" | number;

export type TiedOptions = {
  cwd?: string;
  /** Left out, the one of this process. */
  env?: Record<string, string | undefined>;
  uid?: number;
  gid?: number;
  stdio: [Stream, Stream, Stream];
  /** Name of the signal that asks the child to end, without "SIG". */
  signal?: "TERM" | "INT" | "KILL";
  /** Milliseconds from that signal to SIGKILL. */
  graceMs?: number;
};

export function spawnTied(command: string, args: string[], options: TiedOptions): ChildProcess;
