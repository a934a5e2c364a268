import { Problem } from "../problem.ts";

const DATABASE_HINTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there",
  ENOTFOUND: "there is no such host",
  "28P01": "the password is wrong",
  "28000": "the role may not connect",
  "3D000": "there is no such database",
  "42501": "the role lacks a right: it must own the database",
};

/**
 * What to show a person for an error that ended a command: one line, or undefined for a fault that only its stack trace explains.
 * Addresses and codes may be in it, passwords never are.
 */
export function describeFailure(error: unknown): string | undefined {
  if (error instanceof Problem) return error.message;
  const { code, syscall, address, port } = error as NodeJS.ErrnoException & {
    address?: string;
    port?: number;
  };
  if (code === "EADDRINUSE")
    return `The port ${port} of ${address} is in use: set KEYVAULT_PORT or KEYVAULT_HEALTH_PORT`;
  if (code === "EACCES" && syscall === "listen") return `The port ${port} may not be opened by this user`;
  const hint = code === undefined ? undefined : DATABASE_HINTS[code];
  if (hint !== undefined) return `The database of KEYVAULT_DATABASE_URL cannot be used: ${hint} (${code})`;
  return undefined;
}
