import { open, rm } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import type { Command } from "commander";
import type { Dispatcher } from "undici";
import { systemClock } from "../clock.ts";
import { type ErrorCode, errorCodes, exitStatus, UnavailableError, UserError } from "../errors.ts";
import { type Access, type AccessOptions, readAccess } from "./access.ts";
import { describeFileError } from "./describe_error.ts";

/** Options of the commands that call a running vault. */
export type RemoteOptions = AccessOptions & { json?: true };

const TIMEOUT_MS = 10_000;

/** A refusal by the vault, with its stable error code. */
export class CallError extends UserError {
  override readonly name = "Refused";
  override readonly exitStatus: number;
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
    const isOutage = code in errorCodes && errorCodes[code as ErrorCode][0] === 503;
    this.exitStatus = isOutage ? exitStatus.unavailable : exitStatus.failed;
  }
}

/** Adds the options of a command that calls a running vault. */
export function withRemoteOptions(command: Command): Command {
  return command
    .option("--url <url>", "the vault's address (default: this machine, KEYVAULT_PORT)")
    .option(
      "--ca <file>",
      "the authority that signed the vault's certificate (default: the one in the settings)",
    )
    .option(
      "--cert <file>",
      "your certificate (default: <data>/tls/admin.pem). With -, standard input has certificate and key",
    )
    .option("--key <file>", "the certificate's private key (default: <name>.key beside <name>.pem)")
    .option("--json", "print JSON");
}

/**
 * Calls a running vault with the caller's certificate: a GET, or a POST if there is a `body`. Throws a
 * `UserError` if the vault refuses or does not answer within `timeoutMs` (10 s).
 */
export async function ask(
  options: RemoteOptions,
  path: string,
  body?: object,
  timeoutMs = TIMEOUT_MS,
): Promise<unknown> {
  return exchange(options, path, body, (answer) => answer.body.json(), timeoutMs);
}

/**
 * Sends a POST to a running vault and writes the answer to a new file, for the owner only. Returns the number
 * of bytes in the file. Removes the file unless the answer arrives completely. Throws like {@link ask}, or an
 * error that names the file.
 */
export async function download(options: RemoteOptions, path: string, file: string): Promise<number> {
  const handle = await open(file, "wx", 0o600);
  const written = handle.createWriteStream({ flush: true });
  try {
    await exchange(options, path, {}, (answer) =>
      pipeline(answer.body, written).catch((error: NodeJS.ErrnoException) => {
        throw error.syscall === undefined
          ? error
          : new UserError(describeFileError({ ...error, path: file }));
      }),
    );
    return written.bytesWritten;
  } catch (error) {
    written.destroy();
    await rm(file, { force: true });
    throw error;
  }
}

async function exchange<T>(
  options: RemoteOptions,
  path: string,
  body: object | undefined,
  take: (answer: Dispatcher.ResponseData) => Promise<T>,
  timeoutMs = TIMEOUT_MS,
): Promise<T> {
  const access = readAccess(options);
  const { ca, cert, key } = access;
  const { Agent, request } = await import("undici");
  const dispatcher = new Agent({ connect: { ca, cert, key, minVersion: "TLSv1.3" } });
  try {
    const answer = await request(new URL(path, access.url), {
      ...(body && {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      }),
      dispatcher,
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
    });
    if (answer.statusCode === 200) return await take(answer);
    throw await refusalOf(answer, access);
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw new UnavailableError(
      `The vault at ${access.url.origin} does not answer: ${explainSilence(error, access)}`,
      {
        cause: error,
      },
    );
  } finally {
    await dispatcher.close();
  }
}

async function refusalOf({ statusCode, headers, body }: Dispatcher.ResponseData, access: Access) {
  const { error } = (await body.json()) as { error?: { code?: string; message?: string } };
  if (error?.message === undefined) {
    return new UserError(
      `The vault answered ${statusCode}: read its log, and the log of any proxy before it`,
    );
  }
  const { code = "", message } = error;
  return new CallError(code, explainRefusal(code, message, Number(headers["retry-after"]), access));
}

/** Explanations by error code. For `NOT_TRUSTED` and `REFUSED`, they depend on the files in use. */
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
  CERT_HAS_EXPIRED:
    'its certificate has expired: renew it with "keyvault cert issue --role server --replace"',
  ERR_TLS_CERT_ALTNAME_INVALID:
    "its certificate does not have that name, only the names in KEYVAULT_SERVER_NAMES",
};
const NOT_TRUSTED =
  /^(SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT|UNABLE_TO_(GET|VERIFY)_.*|CERT_SIGNATURE_FAILURE)$/;
const REFUSED = /^(UND_ERR_SOCKET|ECONNRESET|EPIPE|ERR_SSL_.*ALERT.*)$/;

function explainSilence(error: unknown, { caFile, certFile, certificate }: Access): string {
  const { message, code = "" } = error as Error & { code?: string };
  if (error instanceof SyntaxError) return "what answers there is not a key vault";
  if (code === "ERR_SSL_WRONG_VERSION_NUMBER" || code === "ERR_SSL_PACKET_LENGTH_TOO_LONG") {
    return "what answers there does not speak TLS";
  }
  if (NOT_TRUSTED.test(code)) return `its certificate was not issued by the authority in ${caFile}`;
  if (!REFUSED.test(code)) return REASONS[code] ?? message;
  if (certificate.validToDate < systemClock.now()) {
    return `${certFile} expired on ${certificate.validToDate.toISOString().slice(0, 10)}: issue another certificate`;
  }
  return `${message}; it may refuse ${certFile} (revoked, or issued by another authority)`;
}

function explainRefusal(
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
