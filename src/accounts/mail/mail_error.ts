/** Whether the server may have a mail although sending it failed, as a mailer's error says. */
export function isInDoubt(error: unknown): boolean {
  return error instanceof Error && "inDoubt" in error && error.inDoubt === true;
}

/**
 * Whether the server refused this address or text for good, as a mailer's error says: no outage, and the same
 * mail would be refused again.
 */
export function isRefusedForGood(error: unknown): boolean {
  const { command, responseCode } = error as { command?: unknown; responseCode?: number };
  return (command === "RCPT TO" || command === "DATA") && responseCode !== undefined && responseCode >= 500;
}

/**
 * What the log says of a mail that could not be sent: the library's code and the server's, never address or
 * text.
 */
export function describeMailError(error: unknown): { smtp_code: unknown; smtp_response_code: unknown } {
  const { code, responseCode } = error as { code?: unknown; responseCode?: unknown };
  return { smtp_code: code, smtp_response_code: responseCode };
}
