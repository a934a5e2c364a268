import { type Agent, type ClientRequest, type IncomingMessage, request as requestPlain } from "node:http";
import { request as requestSecure } from "node:https";

/** One POST of JSON, or one GET. Header names and values are ASCII. */
export type Call = {
  url: URL;
  headers: Readonly<Record<string, string>>;
  /** The JSON to post. `undefined`: the call is a GET. */
  body: string | undefined;
  /** Milliseconds for the whole exchange, from the DNS lookup to the last byte of the response. */
  timeoutMs: number;
  agent: Agent | undefined;
  /** Ends the exchange early, which then reports `network`. */
  signal?: AbortSignal | undefined;
};

/** A complete response of at most {@link MAX_ANSWER_BYTES} with any status, or why there is none. */
export type Exchange =
  | { answered: true; status: number; body: Buffer; retryAfter?: string | undefined }
  | { answered: false; fault: "timeout" | "network" | "answer_too_large" };

/** Maximum size of a response in bytes. A longer response is discarded. */
export const MAX_ANSWER_BYTES = 256 * 1024;

/**
 * Sends one request and reads the complete response. Follows no redirect and does not retry. Reports
 * `network` for every fault of DNS, connection or TLS, and for a response that is not HTTP. Never throws.
 */
export function exchange(call: Call): Promise<Exchange> {
  const deadline = performance.now() + call.timeoutMs;
  return new Promise((resolve) => {
    let request: ClientRequest | undefined;
    let isFinished = false;
    function finish(exchange: Exchange): void {
      if (isFinished) return;
      isFinished = true;
      clearTimeout(timer);
      resolve(performance.now() < deadline ? exchange : { answered: false, fault: "timeout" });
      if (!exchange.answered) request?.destroy();
    }
    const timer = setTimeout(() => finish({ answered: false, fault: "timeout" }), call.timeoutMs);
    try {
      request = open(call);
    } catch {
      finish({ answered: false, fault: "network" });
      return;
    }
    request.on("response", (response) => readAnswer(response, finish));
    for (const event of ["error", "close"]) {
      request.on(event, () => finish({ answered: false, fault: "network" }));
    }
    request.end(call.body);
  });
}

function open({ url, headers, body, agent, signal }: Call): ClientRequest {
  const start = url.protocol === "https:" ? requestSecure : requestPlain;
  return start(url, {
    method: body === undefined ? "GET" : "POST",
    ...(agent === undefined ? {} : { agent }),
    ...(signal === undefined ? {} : { signal }),
    headers: {
      accept: "application/json",
      "accept-encoding": "identity",
      ...(body !== undefined && {
        "content-type": "application/json",
        "content-length": String(Buffer.byteLength(body)),
      }),
      ...headers,
    },
  });
}

function readAnswer(response: IncomingMessage, finish: (exchange: Exchange) => void): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  response.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) {
      finish({ answered: false, fault: "answer_too_large" });
    } else {
      chunks.push(chunk);
    }
  });
  response.on("error", () => finish({ answered: false, fault: "network" }));
  response.on("end", () => {
    const { complete, statusCode: status = 0, headers } = response;
    const body = Buffer.concat(chunks);
    finish(
      complete
        ? { answered: true, status, body, retryAfter: headers["retry-after"] }
        : { answered: false, fault: "network" },
    );
  });
}
