import { spawn } from "node:child_process";

/**
 * @typedef {"ignore" | "inherit" | "pipe" | number} Stream Target of a standard stream: a
 *   keyword of Node or a file descriptor.
 *
 * @typedef {object} TiedOptions
 * @property {string} [cwd] Working folder. Default: that of this process.
 * @property {Record<string, string | undefined>} [env] Default: the environment of this process.
 *
 * @property {number} [uid] User that the child runs as.
 * @property {number} [gid] Group that the child runs as.
 * @property {[Stream, Stream, Stream]} stdio Standard input, output and error.
 *
 * @property {"TERM" | "INT" | "KILL"} [signal] Name without "SIG" of the signal that asks the child to exit.
 * @property {number} [graceMs] Milliseconds between that signal and SIGKILL.
 */

// The background shell reads from a pipe that nobody writes to. The read returns when the parent closes the
// pipe or dies in any way, even by kill -9. The background shell then stops the command, which has replaced
// the main shell, and the rest of the command's process group. The background shell belongs to that group
// itself, so the group's number cannot be reused.
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
 * Starts a process that cannot outlive this one. When this process exits, for whatever reason, the child gets
 * `signal`, and SIGKILL if it still runs `graceMs` later. After the child has exited, everything left in its
 * process group is killed. If the command cannot be executed, the child exits with status 126 or 127.
 *
 * The child runs in a separate session, so Ctrl-C at a terminal reaches only this process.
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
