import { once } from "node:events";
import { join } from "node:path";
import { runScript } from "../../../support/process.ts";

/** The program that receives webhooks in a cluster, as a process on loopback. */
export type ReceiverProcess = {
  webhooksUrl: string;
  deliveriesUrl: string;
  /** Stops the process with SIGTERM and returns its exit status. */
  stop(): Promise<number | null>;
};

const PROGRAM = join(import.meta.dirname, "../../../../src/dev/tour/webhook_server.ts");

/** Starts the program on free ports. */
export async function startReceiverProcess(): Promise<ReceiverProcess> {
  const { child, firstLine } = await runScript(PROGRAM, ["0", "0"]);
  const ports = JSON.parse(firstLine) as { webhooks: number; reading: number };
  return {
    webhooksUrl: `http://127.0.0.1:${ports.webhooks}/webhooks`,
    deliveriesUrl: `http://127.0.0.1:${ports.reading}`,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
      const exit = once(child, "exit");
      child.kill("SIGTERM");
      return (await exit)[0] as number | null;
    },
  };
}
