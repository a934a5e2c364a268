import { StartError } from "../config.ts";
import { codeOf } from "../describe_fault.ts";
import { outageReason, READ_ONLY, sqlState } from "./errors.ts";
import { NO_SCHEMA } from "./schema_state.ts";

/** Milliseconds for which a process that starts waits for a standby to become the primary. */
const FAILOVER_MS = 10_000;

/** Instructions by SQLSTATE, or by its class. */
const INSTRUCTIONS: Record<string, string> = {
  "28": "correct the user and the password in DATABASE_URL, or create the role",
  "3D": "create the database, or correct its name in DATABASE_URL",
  [NO_SCHEMA]:
    "create the schema, or name an existing one in DATABASE_URL with ?options=-c%20search_path%3D<schema>",
};
const TLS_INSTRUCTION = "correct sslmode and sslrootcert in DATABASE_URL, or the server's certificate";
const TLS_FAULT = /^(?:ERR_TLS|ERR_SSL|ERR_OSSL|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO_SELF_SIGNED)/;
const FILE_FAULT = /^(?:ENOENT|EACCES|EISDIR|ENOTDIR)$/;

/**
 * Returns a function that throws `StartError` for an error of the database that waiting does not mend. It
 * waits only for a standby, because a failover may be running.
 */
export function createRefusalCheck(): (error: unknown) => void {
  let standbySince: number | undefined;
  return (error) => {
    const isReadOnly = sqlState(error) === READ_ONLY;
    const now = performance.now();
    standbySince = isReadOnly ? (standbySince ?? now) : undefined;
    const instruction = instructionFor(error);
    const isStandby = standbySince !== undefined && now - standbySince >= FAILOVER_MS;
    if (!isStandby && instruction === undefined) return;
    const more = instruction === undefined ? "" : `: ${instruction}`;
    throw new StartError(`The database cannot be used: ${outageReason(error)}${more}`, { cause: error });
  };
}

/**
 * Throws `StartError` for an error with which the server refuses a command: its login, database or schema.
 * Throws a `StartError` again. A command may be repeated, so it does not wait for a standby.
 */
export function throwRefusal(error: unknown): void {
  if (error instanceof StartError) throw error;
  if (sqlState(error) !== undefined) createRefusalCheck()(error);
}

function instructionFor(error: unknown): string | undefined {
  const state = sqlState(error) ?? "";
  const instruction = INSTRUCTIONS[state] ?? INSTRUCTIONS[state.slice(0, 2)];
  if (instruction !== undefined) return instruction;
  if (!(error instanceof Error)) return undefined;
  const code = codeOf(error) ?? "";
  const { message, syscall } = error as NodeJS.ErrnoException;
  // A socket's file may appear when the server starts. A certificate's file was there before this process.
  const isFile = FILE_FAULT.test(code) && syscall !== "connect";
  const isTls = TLS_FAULT.test(code) || isFile || message.includes("does not support SSL");
  return isTls ? TLS_INSTRUCTION : undefined;
}
