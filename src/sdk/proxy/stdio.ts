import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import type { Agent } from "../agent/create_agent.ts";
import { linesOf, writeLine } from "./lines.ts";
import { faultMessage, readClientMessage, readServerMessage } from "./messages.ts";
import { createSession, type ProxyParts, type Session, type Verdict } from "./session.ts";

/** A server that the proxy starts, and the streams of the host. */
export type StdioServer = {
  command: readonly string[];
  /** The environment of the server, without the settings of the proxy. */
  env: Readonly<Record<string, string | undefined>>;
  input: Readable;
  output: Writable;
  /** Called with the process as soon as it runs, so that signals can reach it. */
  onStart?: (child: ChildProcess) => void;
};

/** How the server ended. A server that could not be started has the status of a shell: 126 or 127. */
export type Ended = { code: number | null; signal: NodeJS.Signals | null };

/** While this many calls wait for decisions, the proxy stops reading input. */
const MOST_DECISIONS = 64;
const NOT_FOUND = 127;
const NOT_STARTED = 126;

/**
 * Runs a server behind the proxy, and resolves when it has ended. The server's stderr is the proxy's. When
 * the host closes its stream, the server's input ends after the last decision.
 */
export async function runStdio(
  parts: ProxyParts,
  agent: Agent | undefined,
  { command, env, input, output, onStart }: StdioServer,
): Promise<Ended> {
  const [program = "", ...args] = command;
  const child = spawn(program, args, { env, stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise<Ended>((resolve) => {
    child.once("error", (error: NodeJS.ErrnoException) => {
      if (child.pid !== undefined) return;
      parts.journal.note("the server did not start", { code: error.code });
      resolve({ code: error.code === "ENOENT" ? NOT_FOUND : NOT_STARTED, signal: null });
    });
    child.once("close", (code, signal) => resolve({ code, signal }));
  });
  if (child.pid !== undefined) onStart?.(child);
  // A server that has ended does not read its input, which "close" reports.
  child.stdin.on("error", () => undefined);
  output.on("error", () => undefined);
  const session = createSession(parts, agent, (message) => {
    void writeLine(child.stdin, JSON.stringify(message));
  });
  const fromServer = readServer(parts, session, child, output);
  void readHost(parts, session, input, { server: child.stdin, host: output }).then(() => child.stdin.end());
  const end = await ended;
  input.destroy();
  await fromServer;
  session.end();
  return end;
}

type Ways = { server: Writable; host: Writable };

async function readHost(
  { journal }: ProxyParts,
  session: Session,
  input: Readable,
  ways: Ways,
): Promise<void> {
  const waiting = new Set<Promise<void>>();
  try {
    for await (const line of linesOf(input)) {
      const message = line === "too_large" ? line : readClientMessage(line);
      if (typeof message === "string") {
        journal.refused(message);
        await writeLine(ways.host, JSON.stringify(faultMessage(message)));
        continue;
      }
      const verdict = session.fromClient(message);
      if (!(verdict instanceof Promise)) {
        await follow(verdict, ways);
        continue;
      }
      const handled = verdict.then((decided) => follow(decided, ways)).finally(() => waiting.delete(handled));
      waiting.add(handled);
      if (waiting.size >= MOST_DECISIONS) await Promise.race(waiting);
    }
  } catch {
    // The host's stream broke: it counts as closed.
  }
  await Promise.all(waiting);
}

async function follow({ forward, reply }: Verdict, { server, host }: Ways): Promise<void> {
  if (forward !== undefined) await writeLine(server, JSON.stringify(forward));
  if (reply !== undefined) await writeLine(host, JSON.stringify(reply));
}

async function readServer(
  { journal }: ProxyParts,
  session: Session,
  child: ChildProcess & { stdout: Readable; stdin: Writable },
  output: Writable,
): Promise<void> {
  for await (const line of linesOf(child.stdout)) {
    const read = line === "too_large" ? line : readServerMessage(line);
    if (typeof read === "string") {
      journal.refused(`server_${read}`);
      // Nobody knows which request the message answers, and its client would wait forever.
      if (read === "too_large") child.kill();
      continue;
    }
    const { forward, reply } = session.fromServer(read);
    if (forward !== undefined) await writeLine(output, forward);
    if (reply !== undefined) await writeLine(child.stdin, JSON.stringify(reply));
  }
}

/** Waits until the process has ended, and then ends this one in the same way. */
export async function endLike({ code, signal }: Ended): Promise<void> {
  if (signal === null) {
    process.exitCode = code ?? 1;
    return;
  }
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  await once(process, "exit");
}
