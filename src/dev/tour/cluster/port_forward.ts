import { once } from "node:events";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { spawnTied } from "../../process/lifeline.mjs";
import { UserError } from "../../user_error.ts";

/** A port forward. Its local URL reaches a port in the cluster. */
export type Forward = { url: string; close(): Promise<void> };

/** Target of a forward: `name` is, for example, `service/deputize-api`, and `port` a name or a number. */
export type ForwardTarget = { namespace: string; name: string; port: string };

const LISTENING = /^Forwarding from 127\.0\.0\.1:(\d+) ->/;
const AGAIN_MS = 500;

/**
 * Forwards a free loopback port with kubectl until this process exits. Restarts a forward that stops, for
 * example with its pod. Throws `UserError` if the forward cannot start.
 */
export async function forwardPort(
  common: readonly string[],
  { namespace, name, port }: ForwardTarget,
  program = "kubectl",
): Promise<Forward> {
  const closing = new AbortController();

  function start(local: string) {
    const child = spawnTied(
      program,
      [
        "port-forward",
        `--namespace=${namespace}`,
        "--address=127.0.0.1",
        name,
        `${local}:${port}`,
        ...common,
      ],
      { stdio: ["ignore", "pipe", "pipe"] },
    );
    const end = () => child.kill("SIGTERM");
    closing.signal.addEventListener("abort", end);
    const ended = once(child, "exit").finally(() => closing.signal.removeEventListener("abort", end));
    if (child.stdout === null || child.stderr === null) throw new Error("a child without its output");
    const lines = createInterface({ input: child.stdout });
    const listening = new Promise<string>((resolve) => {
      lines.on("line", (line) => {
        const found = LISTENING.exec(line)?.[1];
        if (found !== undefined) resolve(found);
      });
    });
    const complaint = text(child.stderr);
    return { listening, ended, complaint };
  }

  const first = start("");
  const local = await Promise.race([first.listening, first.ended.then(() => undefined)]);
  if (local === undefined) {
    throw new UserError(`kubectl port-forward ${name} ended: ${(await first.complaint).trim()}`);
  }

  async function goOn(): Promise<void> {
    await first.ended;
    while (!closing.signal.aborted) {
      await start(local ?? "").ended;
      await sleep(AGAIN_MS, undefined, { signal: closing.signal }).catch(() => undefined);
    }
  }
  const over = goOn();

  return {
    url: `http://127.0.0.1:${local}`,
    async close() {
      closing.abort();
      await over;
    },
  };
}
