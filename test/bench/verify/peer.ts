import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { processPart, type RunningPart } from "../../../src/dev/process/part.ts";

const EVERY_MS = 50;

/**
 * Starts another server with a shell command, and waits until it listens on `env.PORT`. Its output is in
 * `folder`. It stops with this process at the latest. Rejects if the server does not listen within a minute.
 */
export function startPeer(command: string, env: { PORT: string }, folder: string): Promise<RunningPart> {
  const part = processPart({
    name: "peer",
    title: "The peer",
    command: "/bin/sh",
    args: ["-c", command],
    env: { ...process.env, ...env },
    ready: (signal) => untilListening(Number(env.PORT), signal),
  });
  const logFile = join(folder, "peer.log");
  return part.start({ logFile, signal: new AbortController().signal, spawned: () => {} });
}

/** Sends no request, because a verifier may serve only the verify path. */
async function untilListening(port: number, signal: AbortSignal): Promise<void> {
  while (!(await isListening(port))) {
    if (signal.aborted) throw new Error(`no server listens on ${port}, the port in PORT`);
    await sleep(EVERY_MS);
  }
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1" });
    socket.once("error", () => resolve(false));
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
  });
}
