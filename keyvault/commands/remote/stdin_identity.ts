import { readSync } from "node:fs";
import { UserError } from "../../errors.ts";

const MOST_BYTES = 65_536;
const RETRY_MS = 10;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\s*?\n/;
const KEY = /-----BEGIN ((?:EC )?PRIVATE KEY)-----[^-]+-----END \1-----\s*?\n/;

let taken: { cert: Buffer; key: Buffer } | undefined;

/**
 * The certificate and the key, PEM and in either order, that standard input begins with; read once, however
 * often it is asked for. What follows them, as a PIN does, is left to be read. Throws a `UserError` when they
 * are not there.
 */
export function readStdinIdentity(): { cert: Buffer; key: Buffer } {
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

/** The next byte, undefined at the end. One at a time, so that nothing more is taken. */
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
