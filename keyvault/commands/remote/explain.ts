import { systemClock } from "../../clock.ts";
import type { Access } from "./access.ts";

/**
 * What is wrong, and what to do about it, by the code of the error; `NOT_TRUSTED` and `REFUSED` are explained
 * from the files in use.
 */
const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there; is "keyvault serve" running?',
  ENOTFOUND: "there is no such host",
  EAI_AGAIN: "its host name cannot be resolved",
  EHOSTUNREACH: "no route to host",
  ENETUNREACH: "no route to host",
  ETIMEDOUT: "it took too long to connect",
  UND_ERR_CONNECT_TIMEOUT: "it took too long to connect",
  UND_ERR_HEADERS_TIMEOUT: "it took too long to answer",
  UND_ERR_BODY_TIMEOUT: "its answer stopped half-way",
  CERT_HAS_EXPIRED: 'its certificate has expired: "keyvault cert issue --role server --replace"',
  ERR_TLS_CERT_ALTNAME_INVALID:
    "its certificate does not have that name; it is issued for those of KEYVAULT_SERVER_NAMES",
};
const NOT_TRUSTED =
  /^(SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT|UNABLE_TO_(GET|VERIFY)_.*|CERT_SIGNATURE_FAILURE)$/;
const REFUSED = /^(UND_ERR_SOCKET|ECONNRESET|EPIPE|ERR_SSL_.*ALERT.*)$/;

/** Why a vault gave no answer: one sentence that says what to look at. */
export function explainSilence(error: unknown, { caFile, certFile, certificate }: Access): string {
  const { message, code = "" } = error as Error & { code?: string };
  if (error instanceof SyntaxError) return "what answers there is not a key vault";
  if (code === "ERR_SSL_WRONG_VERSION_NUMBER" || code === "ERR_SSL_PACKET_LENGTH_TOO_LONG") {
    return "what answers there does not speak TLS";
  }
  if (NOT_TRUSTED.test(code)) return `its certificate was not issued by the authority in ${caFile}`;
  if (!REFUSED.test(code)) return REASONS[code] ?? message;
  if (certificate.validToDate < systemClock.now()) {
    return `${certFile} has expired on ${certificate.validToDate.toISOString().slice(0, 10)}: have another issued`;
  }
  return `${message}; it may refuse ${certFile} (revoked, or issued by another authority)`;
}

/** What a vault refused, and what to do about it where it is not plain. */
export function explainRefusal(
  code: string,
  message: string,
  waitSeconds: number,
  { certFile, certificate }: Access,
): string {
  const role = /URI:deputize:\/\/role\/([^,\s]+)/.exec(certificate.subjectAltName ?? "")?.[1];
  if (code === "forbidden" && role !== undefined) return `${message}: ${certFile} is for ${role}`;
  if (code === "sealed") return `${message}: "keyvault unseal" opens it`;
  if (code === "rate_limited" && waitSeconds > 0) return `${message}: wait ${waitSeconds} s`;
  return message;
}
