import { setTimeout as sleep } from "node:timers/promises";
import { chances } from "../events/support/load.ts";
import { startReceiver } from "../events/support/receiver.ts";
import { openLines } from "./lines.ts";

/** Input of the receivers. `failing` is the share of deliveries that they refuse once. */
export type ReceiversInput = { folder: string; seed: number; host?: string; failing?: number };

const SLOWEST_MS = 30;
const FAILING = 0.005;

/**
 * Receives webhooks and checks both signatures. Records every request before it sends the response. Reads
 * secrets as lines `<connection id> <secret>` from standard input, and exits when that closes.
 */
async function receive({ folder, seed, host, failing = FAILING }: ReceiversInput): Promise<void> {
  const lines = openLines(folder, "received");
  const chance = chances(seed);
  const failed = new Set<string>();
  const receiver = await startReceiver(Date.now, "", host);
  receiver.reply = async ({ event, deliveryId, faults }) => {
    receiver.requests.length = 0;
    const at = Date.now();
    await sleep(chance() * SLOWEST_MS);
    // A second failure of the same delivery would cause a wait of five minutes.
    const fails = chance() < failing && !failed.has(deliveryId);
    if (fails) failed.add(deliveryId);
    const status = fails ? 500 : 204;
    const id = String(event.request_id ?? event.cert_id ?? event.org_name);
    lines.write({ id, connectionId: String(event.connection_id), deliveryId, at, status, faults });
    return status;
  };
  process.stdout.write(`${receiver.url}\n`);
  let rest = "";
  for await (const chunk of process.stdin) {
    const texts = `${rest}${chunk}`.split("\n");
    rest = texts.pop() ?? "";
    for (const text of texts) {
      const [connectionId = "", secret = ""] = text.split(" ");
      receiver.secrets.set(connectionId, secret);
    }
  }
  await receiver.close();
  await lines.close();
}

await receive(JSON.parse(process.env.SOAK_INPUT ?? "{}"));
