import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync, readSync } from "node:fs";
import { join } from "node:path";
import { loadConfig } from "../config.ts";
import { UsageError, UserError } from "../errors.ts";
import { readCertificates, writeCertificates } from "../tls/material.ts";

/** Command-line options with the address of a running vault and the caller's credentials. */
export type AccessOptions = { url?: string; ca?: string; cert?: string; key?: string };

/** Address of a running vault and the caller's credentials, as contents of the PEM files. */
export type Access = {
  url: URL;
  ca: Buffer;
  cert: Buffer;
  key: Buffer;
  caFile: string;
  certFile: string;
  certificate: X509Certificate;
};

/**
 * Reads address, authority, certificate and key from the options, or from environment settings. `-` reads
 * certificate and key from standard input. Throws a `UserError` for an unreadable file, a key that does not
 * match the certificate, or an invalid address.
 */
export function readAccess({ url, ca, cert, key }: AccessOptions): Access {
  const given = url === undefined ? undefined : readUrl(url);
  const config = url && ca && cert ? undefined : loadConfig();
  const inTls = (file: string): string => join(config?.tlsDir ?? "", file);
  const caFile = ca ?? config?.tls.caFile ?? "";
  const fromStdin = cert === "-";
  const certFile = fromStdin ? "the certificate of standard input" : (cert ?? inTls("admin.pem"));
  const keyFile = fromStdin
    ? "the key of standard input"
    : (key ?? `${certFile.replace(/\.(pem|crt|cer)$/, "")}.key`);
  const authorities = readCertificates(caFile, readFile(caFile));
  if (authorities.length === 0) throw new UserError(`${caFile} is not a PEM certificate`);
  const identity = fromStdin ? readStdinIdentity() : { cert: readFile(certFile), key: readFile(keyFile) };
  const read = { ca: writeCertificates(authorities), ...identity };
  const certificate = parse(certFile, "certificate", () => new X509Certificate(read.cert));
  if (!certificate.checkPrivateKey(parse(keyFile, "private key", () => createPrivateKey(read.key)))) {
    throw new UserError(`${keyFile} is not the key of ${certFile}: name its key with --key`);
  }
  return {
    url: given ?? readUrl(`https://localhost:${config?.listen.port}`),
    ...read,
    caFile,
    certFile,
    certificate,
  };
}

function readUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === "https:" && url.hostname !== "") return url;
  throw new UsageError(`${text} is not a vault address: give https://<host>:<port>`);
}

function parse<T>(file: string, what: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new UserError(`${file} is not a PEM ${what}`, { cause: error });
  }
}

function readFile(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new UserError(`${path} cannot be read`, { cause: error });
  }
}

const MOST_BYTES = 65_536;
const RETRY_MS = 10;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\s*?\n/;
const KEY = /-----BEGIN ((?:EC )?PRIVATE KEY)-----[^-]+-----END \1-----\s*?\n/;

let taken: { cert: Buffer; key: Buffer } | undefined;

/**
 * Reads the certificate and the key, PEM and in either order, from the start of standard input, once. Does
 * not consume what follows, for example a PIN. Throws a `UserError` if they are missing.
 */
function readStdinIdentity(): { cert: Buffer; key: Buffer } {
  taken ??= read();
  return taken;
}

function read(): { cert: Buffer; key: Buffer } {
  let text = "";
  while (text.length < MOST_BYTES) {
    const byte = readByte();
    if (byte === undefined) break;
    text += byte;
    if (byte !== "\n") continue;
    const [cert] = CERTIFICATE.exec(text) ?? [];
    const [key] = KEY.exec(text) ?? [];
    if (cert !== undefined && key !== undefined) return { cert: Buffer.from(cert), key: Buffer.from(key) };
  }
  throw new UserError("Standard input does not begin with a certificate and its key, both PEM");
}

/** Returns the next byte of standard input, or `undefined` at the end. Reads nothing after that byte. */
function readByte(): string | undefined {
  const byte = Buffer.alloc(1);
  for (;;) {
    try {
      return readSync(0, byte) === 0 ? undefined : byte.toString("latin1");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EOF") return undefined;
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
    }
  }
}
