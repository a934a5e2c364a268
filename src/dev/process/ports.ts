import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer } from "node:net";
import { exitStatus } from "../../input/exit_status.ts";
import { UserError } from "../user_error.ts";

const LOOPBACK = "127.0.0.1";

/** A port that a part listens on, and the name of the setting that changes it. */
export type PartPort = {
  port: number;
  setting: string;
};

/** Ports to try. Outgoing connections use ports from 32768 on Linux, from 49152 on macOS and Windows. */
const [FIRST, END] = [20_000, 32_000];
const MOST_TRIES = 100;
/** Distance between the first ports that processes with consecutive IDs try, so they seldom collide. */
const PORTS_EACH = 16;
let next = process.pid * PORTS_EACH;

/**
 * Returns a free TCP port on 127.0.0.1 that no outgoing connection uses. Until this process exits, no other
 * process gets the port from this function.
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
 * Claims the port by its UDP port of the same number. The kernel gives that port to one process only, and
 * frees it when the process exits for any reason.
 */
async function claim(port: number): Promise<boolean> {
  const socket = createSocket("udp4").unref();
  try {
    await once(socket.bind(port, LOOPBACK), "listening");
    return true;
  } catch {
    socket.close();
    return false;
  }
}

async function isFree(port: number): Promise<boolean> {
  return checkFree({ port, setting: "" }).then(
    () => true,
    () => false,
  );
}

/** Throws `UserError` with the port and the name of its setting if another program listens on the port. */
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
      { cause, status: exitStatus.setting },
    );
  }
  probe.close();
  await once(probe, "close");
}
