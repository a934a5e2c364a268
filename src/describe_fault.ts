/** What is logged of an unexpected fault: its kind and where it arose. */
export type Fault = { type: string; code?: string; message: string; stack?: string };

/**
 * A fault for the log. What could carry a caller's data is left out: of a database's error its words, which
 * quote values, and its `detail`; the statement with its placeholders, the state and the constraint stay.
 */
export function describeFault(error: unknown): Fault {
  if (!(error instanceof Error)) return { type: typeof error, message: "not an error" };
  const code = codeOf(error);
  const frames = error.stack?.split("\n").filter((line) => line.startsWith("    at "));
  return {
    type: error.name,
    ...(code === undefined ? {} : { code }),
    message: isDatabaseError(error) ? describeDatabaseError(error) : error.message,
    ...(frames === undefined ? {} : { stack: frames.join("\n") }),
  };
}

type DatabaseError = Error & { severity: string; code: string; constraint?: string };

function isDatabaseError(error: Error): error is DatabaseError {
  return "severity" in error && /^[0-9A-Z]{5}$/.test(codeOf(error) ?? "");
}

function describeDatabaseError({ message, code, constraint }: DatabaseError): string {
  const end = message.lastIndexOf(" - ");
  const statement = end === -1 ? [] : [message.slice(0, end)];
  return [...statement, `SQLSTATE ${code}`, ...(constraint === undefined ? [] : [constraint])].join(" - ");
}

/** The code an error carries: of the system, or an SQLSTATE. */
export function codeOf(error: Error): string | undefined {
  return "code" in error && typeof error.code === "string" ? error.code : undefined;
}
