import { createWriteStream, readFileSync } from "node:fs";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { Command } from "commander";
import { Agent, request } from "undici";
import { loadConfig } from "../config.ts";
import { Problem } from "../problem.ts";

/** Options of the commands that ask a running vault. */
export type RemoteOptions = { url?: string; ca?: string; cert?: string; key?: string; json?: true };

const TIMEOUT_MS = 10_000;

/** Adds the options of a command that asks a running vault. */
export function withRemoteOptions(command: Command): Command {
  return command
    .option("--url <url>", "the vault's address (default: this machine, KEYVAULT_PORT)")
    .option("--ca <file>", "the authority that signed the vault's certificate (default: <data>/tls/ca.pem)")
    .option("--cert <file>", "your certificate (default: <data>/tls/admin.pem)")
    .option("--key <file>", "its private key (default: <data>/tls/admin.key)")
    .option("--json", "print JSON");
}

/** Asks a running vault by the caller's certificate: a GET, or with a `body` a POST. Throws a `Problem` when it does not answer or refuses. */
export async function ask(options: RemoteOptions, path: string, body?: object): Promise<unknown> {
  const { url, ...tls } = resolveOptions(options);
  const dispatcher = new Agent({ connect: { ...tls, minVersion: "TLSv1.3" } });
  try {
    const answer = await request(new URL(path, url), {
      ...(body && {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      }),
      dispatcher,
      headersTimeout: TIMEOUT_MS,
      bodyTimeout: TIMEOUT_MS,
    });
    const answered = await answer.body.json();
    if (answer.statusCode === 200) return answered;
    throw new Problem(
      (answered as { error?: { message?: string } }).error?.message ??
        `The vault answered ${answer.statusCode}`,
    );
  } catch (error) {
    if (error instanceof Problem) throw error;
    throw new Problem(`The vault at ${url} does not answer: ${reasonOf(error)}`, { cause: error });
  } finally {
    await dispatcher.close();
  }
}

/** Posts to a running vault and writes its answer to a file, for the owner only; gives the bytes written. Throws as {@link ask} does. */
export async function download(options: RemoteOptions, path: string, file: string): Promise<number> {
  const { url, ...tls } = resolveOptions(options);
  const dispatcher = new Agent({ connect: { ...tls, minVersion: "TLSv1.3" } });
  try {
    const answer = await request(new URL(path, url), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: "{}",
      dispatcher,
      headersTimeout: TIMEOUT_MS,
      bodyTimeout: TIMEOUT_MS,
    });
    if (answer.statusCode !== 200) {
      const { error } = (await answer.body.json()) as { error?: { message?: string } };
      throw new Problem(error?.message ?? `The vault answered ${answer.statusCode}`);
    }
    const written = createWriteStream(file, { flags: "wx", mode: 0o600, flush: true });
    await pipeline(answer.body, written);
    return written.bytesWritten;
  } catch (error) {
    if (error instanceof Problem) throw error;
    throw new Problem(`The vault at ${url} did not give it: ${reasonOf(error)}`, { cause: error });
  } finally {
    await dispatcher.close();
  }
}

/** TLS 1.3 refuses a client's certificate by ending the connection, after the client took it to be open. */
function reasonOf(error: unknown): string {
  const { message, code } = error as Error & { code?: string };
  return code === "UND_ERR_SOCKET" || code === "ECONNRESET"
    ? `${message}; it may not take this certificate (revoked, expired, or of another authority)`
    : message;
}

function resolveOptions(options: RemoteOptions): { url: string; ca: Buffer; cert: Buffer; key: Buffer } {
  const { url, ca, cert, key } = options;
  const config = url && ca && cert && key ? undefined : loadConfig();
  const inTls = (file: string): string => join(config?.tlsDir ?? "", file);
  return {
    url: url ?? `https://localhost:${config?.listen.port}`,
    ca: readFile(ca ?? inTls("ca.pem")),
    cert: readFile(cert ?? inTls("admin.pem")),
    key: readFile(key ?? inTls("admin.key")),
  };
}

function readFile(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch {
    throw new Problem(`${path} cannot be read`);
  }
}
