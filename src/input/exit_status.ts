/** The exit statuses of all commands. `docs/exit_statuses.md` explains them. */
export const exitStatus = {
  done: 0,
  /** The command refused or failed, or it checked something and found a fault. */
  failed: 1,
  /** The command line is wrong. Nothing was done. */
  usage: 2,
  /** A part that the command needs, such as the database, does not answer. It may be repeated. */
  unavailable: 3,
  /** A setting, or a port or file that it names, must be changed first: EX_CONFIG in sysexits.h. */
  setting: 78,
  /** The user pressed Ctrl-C. */
  interrupted: 130,
  /** The reader of the output has closed the pipe: 128 and the number of SIGPIPE. */
  brokenPipe: 141,
} as const;
