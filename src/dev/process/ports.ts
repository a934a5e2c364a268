import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer } from "node:net";
import { UserError } from "../user_error.ts";

const LOOPBACK = "127.0.0.1";

/** A port that a part listens on, and the name of the setting that changes it. */
export type PartPort = {
  port: number;
  setting: string;
};

/**
 * Lower than the ports that Linux (32768–60999), macOS and Windows (49152–65535) use for outgoing
 * connections.
 */
const [FIRST, END] = [20_000, 32_000];
const MOST_TRIES = 100;
/** Distance between the first ports of processes with consecutive IDs, so they seldom try the same port. */
const PORTS_EACH = 16;
let next = process.pid * PORTS_EACH;

/**
 * Returns a TCP port on 127.0.0.1 that was free just now. No outgoing connection uses this port, and no other
 * process gets it from this function while this process runs.
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < MOST_TRIES; tries += 1) {
    const port = FIRST + (next % (END - FIRST));
    next += 1;
    if ((await claim(port)) && (await isFree(port))) return port;
  }
  throw new UserError(
    `No port between ${FIRST} and ${END} on ${LOOPBACK} seems to be free`,
    "Stop a program that listens there",
  );
}

/**
 * Returns true if no other process has claimed the port. The claim is the UDP port of the same number. The
 * kernel assigns it to one process only, and frees it when that process ends for any reason.
 */
async function claim(port: number): Promise<boolean> {
  const socket = createSocket("udp4").unref();
  try {
    await once(socket.bind(port, LOOPBACK), "listening");
    return true;
  } catch {
    return false;
  }
}

async function isFree(port: number): Promise<boolean> {
  return checkFree({ port, setting: "" }).then(
    () => true,
    () => false,
  );
}

/** Throws `UserError` with the port and its setting if another program listens on it. */
export async function checkFree({ port, setting }: PartPort): Promise<void> {
  const probe = createServer();
  try {
    await once(probe.listen(port, LOOPBACK), "listening");
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code;
    const reason = code === "EACCES" ? "needs more rights" : "is in use by another program";
    throw new UserError(
      `Port ${port} on ${LOOPBACK} ${reason}`,
      `Stop that program, or choose another port with ${setting}`,
      { cause },
    );
  }
  probe.close();
  await once(probe, "close");
}
