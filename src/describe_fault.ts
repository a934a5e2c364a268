/** An unexpected fault in the log: its type and where it occurred. */
export type Fault = { type: string; code?: string; message: string; stack?: string };

/**
 * Describes a fault for the log, without a caller's data. For a database error, keeps the statement with its
 * placeholders, the SQLSTATE and the constraint, but omits `detail` and the message, which quotes values. For
 * an error of a parser, omits the message, which quotes the text.
 */
export function describeFault(error: unknown): Fault {
  if (!(error instanceof Error)) return { type: typeof error, message: "the thrown value is not an Error" };
  const code = codeOf(error);
  const frames = error.stack?.split("\n").filter((line) => line.startsWith("    at "));
  return {
    type: error.name,
    ...(code === undefined ? {} : { code }),
    message: messageOf(error),
    ...(frames === undefined ? {} : { stack: frames.join("\n") }),
  };
}

function messageOf(error: Error): string {
  if (isDatabaseError(error)) return describeDatabaseError(error);
  return error instanceof SyntaxError ? "a text could not be parsed" : error.message;
}

type DatabaseError = Error & { severity: string; code: string; constraint?: string };

function isDatabaseError(error: Error): error is DatabaseError {
  return "severity" in error && /^[0-9A-Z]{5}$/.test(codeOf(error) ?? "");
}

/** Knex puts the statement and " - " before Postgres' message, which may contain " - " in a quoted value. */
const STATEMENT = /^(?:select|insert into|update|delete from|with) .*?(?= - )/is;

function describeDatabaseError({ message, code, constraint }: DatabaseError): string {
  const statement = STATEMENT.exec(message) ?? [];
  return [...statement, `SQLSTATE ${code}`, ...(constraint === undefined ? [] : [constraint])].join(" - ");
}

/** Returns the code of an error: a system error code or an SQLSTATE. */
export function codeOf(error: Error): string | undefined {
  return "code" in error && typeof error.code === "string" ? error.code : undefined;
}
