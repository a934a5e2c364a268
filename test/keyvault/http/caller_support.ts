import { request as httpsRequest } from "node:https";
import type { SecureVersion } from "node:tls";

/** TLS options of a client. */
export type Client = {
  ca: string;
  cert?: string;
  key?: string;
  maxVersion?: SecureVersion;
  minVersion?: SecureVersion;
};

/** An answer of the vault. */
export type Answer = {
  status: number;
  /** Seconds from the Retry-After header, if there is one. */
  retryAfter?: string;
  body: { error?: { code: string; status: number } } & Record<string, unknown>;
};

export type Options = { method?: string; body?: unknown; headers?: Record<string, string> };

/** Sends one HTTPS request on a new connection. Rejects if the connection fails or is aborted. */
export function call(
  url: string,
  client: Client,
  { method = "GET", body, headers = {} }: Options = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const typed = body === undefined ? headers : { "content-type": "application/json", ...headers };
    const request = httpsRequest(url, { ...client, method, headers: typed, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk)).on("error", reject);
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString();
        const retryAfter = response.headers["retry-after"];
        resolve({
          status: response.statusCode ?? 0,
          ...(retryAfter !== undefined && { retryAfter }),
          body: text === "" ? {} : JSON.parse(text),
        });
      });
    });
    request.on("error", reject);
    request.end(
      body === undefined
        ? undefined
        : typeof body === "string" || Buffer.isBuffer(body)
          ? body
          : JSON.stringify(body),
    );
  });
}
