import { spawn } from "node:child_process";

/**
 * @typedef {"ignore" | "inherit" | "pipe" | number} Stream Where a standard stream goes: a file descriptor or one of
 *   Node's words.
 *
 * @typedef {object} TiedOptions
 * @property {string} [cwd]
 * @property {Record<string, string | undefined>} [env] Left out, the one of this process.
 * @property {number} [uid]
 * @property {number} [gid]
 * @property {[Stream, Stream, Stream]} stdio
 * @property {"TERM" | "INT" | "KILL"} [signal] Name of the signal that asks the child to end, without "SIG".
 * @property {number} [graceMs] Milliseconds from that signal to SIGKILL.
 */

// The background shell holds the reading end of a pipe nobody writes to. It reads an end of file when the
// parent closes the pipe or dies in any way, kill -9 included, and then ends the process that took the main
// shell's place and whatever that left in its process group. Being in that group itself, it keeps the group's
// number from being reused.
const SCRIPT = `
signal=$1 tenths=$2; shift 2
lives() { kill -0 $$ && ! grep -q ') Z ' /proc/$$/stat; }
(
  trap '' INT TERM QUIT HUP
  read -r _ <&3
  kill -s "$signal" $$
  while lives && [ "$tenths" -gt 0 ]; do sleep 0.1; tenths=$((tenths - 1)); done
  kill -s KILL -- "-$$"
) >/dev/null 2>&1 &
exec 3<&-
exec "$@"
`;

/**
 * Starts a process that cannot outlive this one: when this process ends, however it ends, the child gets
 * `signal` and, if it is still there `graceMs` later, SIGKILL. Once it has ended, whatever it left in its
 * process group is killed. The child leads a session of its own, so a terminal's Ctrl-C reaches this process
 * only, which decides what to stop and in which order. A command that cannot be executed exits with status
 * 126 or 127.
 *
 * @param {string} command
 * @param {string[]} args
 * @param {TiedOptions} options
 * @returns {import("node:child_process").ChildProcess}
 */
export function spawnTied(command, args, { stdio, signal = "TERM", graceMs = 5000, ...options }) {
  const tenths = String(Math.ceil(graceMs / 100));
  const child = spawn("/bin/sh", ["-c", SCRIPT, "sh", signal, tenths, command, ...args], {
    ...options,
    detached: true,
    stdio: [...stdio, "pipe"],
  });
  const lifeline = child.stdio[3];
  lifeline?.on("error", () => {});
  /** @type {{ unref?: () => void }} */ (lifeline)?.unref?.();
  child.once("exit", () => lifeline?.destroy());
  return child;
}
