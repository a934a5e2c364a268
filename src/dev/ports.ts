import { once } from "node:events";
import { createServer } from "node:net";
import { Problem } from "./problem.ts";

const LOOPBACK = "127.0.0.1";

/** A port that a part listens on, and the setting that changes it. */
export interface PartPort {
  port: number;
  setting: string;
}

/** A TCP port on 127.0.0.1 that was free just now. */
export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, LOOPBACK);
  await once(probe, "listening");
  const address = probe.address();
  probe.close();
  await once(probe, "close");
  if (address === null || typeof address === "string") {
    throw new Error("a TCP server has a port");
  }
  return address.port;
}

/** @throws {Problem} naming the port and its setting when something else listens on it. */
export async function checkFree({ port, setting }: PartPort): Promise<void> {
  const probe = createServer();
  try {
    await once(probe.listen(port, LOOPBACK), "listening");
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code;
    const reason = code === "EACCES" ? "needs more rights" : "is in use by another program";
    throw new Problem(
      `Port ${port} on ${LOOPBACK} ${reason}`,
      `Stop that program, or choose another port with ${setting}`,
      { cause },
    );
  }
  probe.close();
  await once(probe, "close");
}
