import { type Dispatcher, Pool } from "undici";
import { codesOf, networkFault } from "../input/network_fault.ts";
import { explainFailure } from "./certificate_fault.ts";
import { type CredentialFiles, type Credentials, watchCredentials } from "./credentials.ts";
import { type VaultRefusalCode, VaultRefused, VaultUnavailable } from "./transport_errors.ts";

export { type VaultRefusalCode, VaultRefused, VaultUnavailable } from "./transport_errors.ts";

/** Connection settings for the vault. Certificates and keys are PEM text. */
export type TransportSettings = {
  /** Base URL, `https://…`. The vault's certificate must contain its host. */
  url: string;
  ca: string | Buffer;
  cert: string | Buffer;
  key: string | Buffer;
  /** The files that contain `ca`, `cert` and `key`. If set, the transport reloads them when they change. */
  files?: CredentialFiles;
  /** Maximum number of open connections. Default 16. */
  connections?: number;
  /** Milliseconds between two checks of `files`. Default 5,000. */
  lookEveryMs?: number;
  /** Maximum milliseconds from a call to its response. Default 5,000. */
  deadlineMs?: number;
};

type VaultCall = { method: "GET" | "POST"; path: string; body?: object; idempotencyKey?: string };

/** Calls the vault over mutual TLS on kept-alive connections. */
export type Transport = {
  /** Throws `VaultRefused` for a 4xx status, and `VaultUnavailable` for any other failure. */
  call<T>(call: VaultCall): Promise<T>;
  close(): Promise<void>;
};

const DEFAULT_CONNECTIONS = 16;
const DEFAULT_DEADLINE_MS = 5_000;
const WHOLE_SECONDS = /^\d{1,6}$/;

/** Returns a transport with these settings. It connects at the first call. */
export function createTransport(settings: TransportSettings): Transport {
  const { url, files, connections = DEFAULT_CONNECTIONS, deadlineMs = DEFAULT_DEADLINE_MS } = settings;
  const open = ({ ca, cert, key }: Pick<TransportSettings, "ca" | "cert" | "key">): Pool =>
    new Pool(url, {
      connections,
      pipelining: 1,
      connect: { ca, cert, key, minVersion: "TLSv1.3", timeout: deadlineMs },
    });
  let pool = open(settings);
  let certificate = buffersOf(settings).cert;

  /** Running calls finish on their old connections. */
  function exchangeCredentials(credentials: Credentials): void {
    const former = pool;
    pool = open(credentials);
    certificate = credentials.cert;
    former.close().catch(() => {});
  }

  const stopWatching =
    files && watchCredentials(files, buffersOf(settings), exchangeCredentials, settings.lookEveryMs);
  return {
    async call<T>({ method, path, body, idempotencyKey }: VaultCall): Promise<T> {
      const headers: Record<string, string> = {};
      if (body !== undefined) headers["content-type"] = "application/json";
      if (idempotencyKey !== undefined) headers["idempotency-key"] = idempotencyKey;
      const request = { method, path, headers, body: body === undefined ? null : JSON.stringify(body) };
      try {
        const { status, answer, retryAfter } = await exchange(pool, request, deadlineMs);
        if (status >= 200 && status < 300) return answer as T;
        throw errorOf(status, answer, retryAfter);
      } catch (error) {
        throw explainFailure(error, certificate);
      }
    },
    close() {
      stopWatching?.();
      return pool.destroy();
    },
  };
}

async function exchange(
  pool: Pool,
  request: Dispatcher.RequestOptions,
  deadlineMs: number,
): Promise<{ status: number; answer: unknown; retryAfter: unknown }> {
  try {
    const response = await pool.request({ ...request, signal: AbortSignal.timeout(deadlineMs) });
    const retryAfter = response.headers["retry-after"];
    return { status: response.statusCode, answer: await response.body.json(), retryAfter };
  } catch (error) {
    const [code] = codesOf(error);
    const found = [networkFault(error)?.what, code && `(${code})`].filter((part) => part !== undefined);
    const message = ["The key vault did not answer", found.join(" ")]
      .filter((part) => part !== "")
      .join(": ");
    throw new VaultUnavailable("unreachable", message, { cause: error });
  }
}

function errorOf(status: number, answer: unknown, retryAfter: unknown): VaultRefused | VaultUnavailable {
  const { code = "unknown", message = `The key vault answered ${status}` } =
    (answer as { error?: { code?: string; message?: string } } | null)?.error ?? {};
  return status >= 400 && status < 500
    ? new VaultRefused(code as VaultRefusalCode, message, status, secondsOf(retryAfter))
    : new VaultUnavailable(code, message);
}

function secondsOf(retryAfter: unknown): number | undefined {
  return typeof retryAfter === "string" && WHOLE_SECONDS.test(retryAfter) ? Number(retryAfter) : undefined;
}

function buffersOf({ ca, cert, key }: TransportSettings): Credentials {
  return { ca: Buffer.from(ca), cert: Buffer.from(cert), key: Buffer.from(key) };
}
