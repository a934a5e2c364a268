import { fork } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Load, Seen } from "./client.ts";

/** What a load found: as the client saw it, with the rate. */
export type Measured = Seen & { perSecond: number };

/**
 * Sends each request once, so many under way at the same time, from a process of its own. Rejects unless
 * every answer allows.
 */
export async function measureLoad(
  { port, folder }: { port: number; folder: string },
  requests: readonly Buffer[],
  connections: number,
): Promise<Measured> {
  const file = join(folder, "requests");
  await writeFile(file, Buffer.concat(requests));
  const load: Load = { port, connections, file, lengths: requests.map(({ length }) => length) };
  const client = fork(fileURLToPath(new URL("client.ts", import.meta.url)));
  client.send(load);
  const [seen] = (await once(client, "message")) as [Seen];
  client.disconnect();
  if (seen.allowed !== requests.length) throw new Error(`${seen.allowed} of ${requests.length} were allowed`);
  return { ...seen, perSecond: requests.length / (seen.ms / 1000) };
}
