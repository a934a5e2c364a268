import { openCarrier } from "../../../src/events/carrier.ts";
import { startTestWorker } from "./worker.ts";

/** The worker stops when its standard input closes, which happens when its parent ends. */
const { DATABASE_URL = "", DATABASE_DIRECT_URL, TIMING = "null", KAFKA } = process.env;
const fatal = (error: Error) => {
  console.error(error);
  process.exit(1);
};
const carrier = await openCarrier(KAFKA === undefined ? undefined : JSON.parse(KAFKA), fatal);
const worker = startTestWorker({ DATABASE_URL, DATABASE_DIRECT_URL }, JSON.parse(TIMING), { carrier, fatal });
process.stdin.on("end", () => process.exit(1)).resume();
process.once("SIGTERM", () => void worker.stop().then(() => process.exit(0)));
process.stdout.write("started\n");
