import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { percentiles } from "../timing.ts";

/**
 * Orders for a client: send each request once, and repeat it after a 503. It stops after `ms`, if set. The
 * connections go to the ports in turn.
 */
export type Load = { ports: number[]; connections: number; file: string; lengths: number[]; ms?: number };

/**
 * Percentiles cover only allowed calls. Times are in milliseconds. Processor time is in microseconds, and
 * covers only sending and reading. `longest` includes refusals.
 */
export type Seen = {
  allowed: number;
  refused: number;
  other: number;
  ms: number;
  p50: number;
  p99: number;
  longest: number;
  cpuMicroseconds: number;
};

/**
 * The client uses little processor time, because it shares the machine with the measured parts. It reads only
 * a response's length, status and decision.
 */
process.once("message", (load: Load) => {
  void run(load).then((seen) => process.send?.(seen));
});

type Kind = "allowed" | "refused" | "other";

const HEAD_END = Buffer.from("\r\n\r\n");
const REFUSAL = Buffer.from("HTTP/1.1 503 ");
/** A response that contains one of these strings allows the call or delivers a result. */
const ALLOWS = ['"decision":"allow"', '"valid":true', '"challenge":"'].map((text) => Buffer.from(text));

async function run({ ports, connections, file, lengths, ms: atMost = Infinity }: Load): Promise<Seen> {
  const requests = cut(readFileSync(file), lengths);
  const took: number[] = [];
  const counts = { allowed: 0, refused: 0, other: 0 };
  let longest = 0;
  const cpu = process.cpuUsage();
  const start = performance.now();
  await Promise.all(
    Array.from({ length: connections }, (_, n) => connection(ports[n % ports.length] as number)),
  );
  const ms = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  return { ...counts, ms, ...percentiles(took), longest, cpuMicroseconds: user + system };

  function connection(port: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: "127.0.0.1", noDelay: true }, () => next());
      let sentAt = 0;
      let received: Buffer[] = [];
      let request: Buffer | undefined;
      function next(kind?: Kind): void {
        if (kind !== "refused") request = requests.pop();
        if (request === undefined || performance.now() - start >= atMost) {
          socket.end();
          resolve();
          return;
        }
        sentAt = performance.now();
        socket.write(request);
      }
      socket.on("data", (chunk: Buffer) => {
        received.push(chunk);
        const answer = received.length === 1 ? chunk : Buffer.concat(received);
        if (!isWhole(answer)) return;
        received = [];
        const waited = performance.now() - sentAt;
        longest = Math.max(longest, waited);
        const kind = kindOf(answer);
        counts[kind] += 1;
        if (kind === "allowed") took.push(waited);
        next(kind);
      });
      socket.on("error", reject);
      socket.on("close", () => reject(new Error("the server closed a connection")));
    });
  }
}

function cut(all: Buffer, lengths: readonly number[]): Buffer[] {
  let at = 0;
  return lengths.map((length) => {
    at += length;
    return all.subarray(at - length, at);
  });
}

function kindOf(answer: Buffer): Kind {
  if (answer.subarray(0, REFUSAL.length).equals(REFUSAL)) return "refused";
  return ALLOWS.some((text) => answer.includes(text)) ? "allowed" : "other";
}

function isWhole(answer: Buffer): boolean {
  const end = answer.indexOf(HEAD_END);
  if (end === -1) return false;
  const length = /content-length: (\d+)/i.exec(answer.toString("latin1", 0, end))?.[1];
  return length !== undefined && answer.length >= end + HEAD_END.length + Number(length);
}
