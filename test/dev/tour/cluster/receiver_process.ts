import { once } from "node:events";
import { PROGRAM } from "../../../support/dev_stack.ts";
import { runScript } from "../../../support/process.ts";

/** The role that receives the tour's webhooks in a cluster, as a process on loopback. */
export type ReceiverProcess = {
  webhooksUrl: string;
  deliveriesUrl: string;
  /** Ends it with SIGTERM, and gives its exit status. */
  stop(): Promise<number | null>;
};

/** Starts it on free ports. */
export async function startReceiverProcess(): Promise<ReceiverProcess> {
  const args = ["tour-receiver", "--port", "0", "--read-port", "0"];
  const { child, firstLine } = await runScript(PROGRAM, args);
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
