import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Agent, type Dispatcher, request } from "undici";
import { createAuthority, issueCertificate } from "../../../keyvault/tls/authority.ts";
import type { Kubernetes } from "./server.ts";

/**
 * A fault can replace the response, break the connection, or suppress the response. It can also delay the
 * response, break it before the first or after some bytes, or change or drop each line.
 */
export type GatewayFault =
  | { status: number; body?: object; headers?: Record<string, string> }
  | "reset"
  | "silence"
  | { delayMs: number }
  | { breakAfter: number }
  | "lost"
  | { line(text: string): string | undefined };

type AnswerFault = Exclude<GatewayFault, "reset" | "silence" | { status: number }>;

/** A proxy to an API server, with administrator rights, that a test can make faulty. */
export type FaultyGateway = {
  url: string;
  ca: string;
  /** Sets the faults for calls that begin from now on. Without a rule, calls have no faults. */
  setRule(rule?: (method: string, url: URL) => GatewayFault | undefined): void;
  breakAll(): void;
  stop(): Promise<void>;
};

export async function startFaultyGateway({ url, ca, adminToken }: Kubernetes): Promise<FaultyGateway> {
  const validity = { notBefore: new Date(Date.now() - 60_000), notAfter: new Date(Date.now() + 3_600_000) };
  const authority = await createAuthority(validity);
  const identity = await issueCertificate(authority, { kind: "server", names: ["127.0.0.1"] }, validity);
  const dispatcher = new Agent({ connect: { ca }, bodyTimeout: 0 });
  let rule: (method: string, url: URL) => GatewayFault | undefined = () => undefined;

  async function pass(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const target = new URL(incoming.url ?? "/", url);
    const fault = rule(incoming.method ?? "GET", target);
    if (fault === "silence") return;
    if (fault === "reset") {
      incoming.socket.destroy();
    } else if (typeof fault === "object" && "status" in fault) {
      outgoing.writeHead(fault.status, fault.headers).end(JSON.stringify(fault.body ?? {}));
    } else {
      await forward(incoming, outgoing, target, fault);
    }
  }

  async function forward(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    target: URL,
    fault: AnswerFault | undefined,
  ): Promise<void> {
    const { method = "GET", headers } = incoming;
    const chunks = await incoming.toArray();
    const ended = new AbortController();
    outgoing.on("close", () => ended.abort());
    const answer = await request(target, {
      method: method as Dispatcher.HttpMethod,
      dispatcher,
      signal: ended.signal,
      headers: {
        authorization: `Bearer ${adminToken}`,
        "content-type": headers["content-type"] ?? "application/json",
      },
      ...(chunks.length > 0 && { body: Buffer.concat(chunks) }),
    });
    if (fault === "lost") {
      await answer.body.dump();
      incoming.socket.destroy();
      return;
    }
    if (fault !== undefined && "delayMs" in fault) await sleep(fault.delayMs);
    outgoing.writeHead(answer.statusCode);
    outgoing.flushHeaders();
    for await (const chunk of altered(answer.body, fault)) outgoing.write(chunk);
    if (fault !== undefined && "breakAfter" in fault) {
      outgoing.destroy();
    } else {
      outgoing.end();
    }
  }

  const options = { cert: identity.certificate, key: identity.privateKey };
  const server = createServer(options, (incoming, outgoing) => {
    pass(incoming, outgoing).catch(() => outgoing.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    ca: authority.certificate,
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    setRule(next = () => undefined) {
      rule = next;
    },
    breakAll: () => server.closeAllConnections(),
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
      await dispatcher.destroy();
    },
  };
}

async function* altered(
  chunks: AsyncIterable<Buffer>,
  fault: Exclude<AnswerFault, "lost"> | undefined,
): AsyncGenerator<Buffer> {
  let rest = "";
  let left = fault !== undefined && "breakAfter" in fault ? fault.breakAfter : Number.POSITIVE_INFINITY;
  for await (const chunk of chunks) {
    if (fault === undefined || !("line" in fault)) {
      yield chunk.subarray(0, left);
      left -= chunk.length;
      if (left <= 0) return;
      continue;
    }
    const lines = (rest + chunk.toString()).split("\n");
    rest = lines.pop() ?? "";
    for (const text of lines) {
      const line = fault.line(text);
      if (line !== undefined) yield Buffer.from(`${line}\n`);
    }
  }
}
