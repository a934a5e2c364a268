import { X509Certificate } from "node:crypto";
import { systemClock } from "../clock.ts";
import { codeOf } from "../describe_fault.ts";
import { VaultRefused, VaultUnavailable } from "./transport_errors.ts";

/** A certificate of the connection to the vault has expired. The message says whose. */
export class VaultCertificateExpired extends VaultUnavailable {
  constructor(message: string, cause: unknown) {
    super("unreachable", message, { cause });
  }
}

/**
 * Returns the error for a failed call if one of the two certificates has expired, and otherwise the same
 * error. `certificate` is the client's, in PEM.
 */
export function explainFailure(error: unknown, certificate: Buffer): unknown {
  const { cause } = error as { cause?: unknown };
  if (cause instanceof Error && codeOf(cause) === "CERT_HAS_EXPIRED") {
    return new VaultCertificateExpired("The key vault's certificate has expired: renew it", error);
  }
  const end = isRejection(error) ? endOf(certificate) : undefined;
  if (end === undefined || end >= systemClock.now()) return error;
  const message = `This process's certificate for the key vault expired at ${end.toISOString()}: renew it`;
  return new VaultCertificateExpired(message, error);
}

/** The vault ends a handshake with an expired certificate, and refuses it on an open connection. */
function isRejection(error: unknown): boolean {
  if (error instanceof VaultUnavailable) return error.code === "unreachable";
  return error instanceof VaultRefused && error.code === "forbidden";
}

function endOf(certificate: Buffer): Date | undefined {
  try {
    return new X509Certificate(certificate).validToDate;
  } catch {
    return undefined;
  }
}
